-- q8: Monitor new users

SELECT P.id, P.name, P.w.start AS starttime
FROM (
  SELECT id, name, window(dateTime, '10 seconds') AS w
  FROM person
  GROUP BY id, name, window(dateTime, '10 seconds')
) AS P
JOIN (
  SELECT seller, window(dateTime, '10 seconds') AS w
  FROM auction
  GROUP BY seller, window(dateTime, '10 seconds')
) AS A ON P.id = A.seller AND P.w = A.w;
