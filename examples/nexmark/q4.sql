-- q4: Average price for a category

SELECT category, avg(final) AS price
FROM (
  SELECT A.category, A.expires AS closed, max(B.price) AS final
  FROM auction AS A
  JOIN bid AS B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
  GROUP BY A.id, A.category, A.dateTime, A.expires
) AS Q
GROUP BY category
EMIT EVERY INTERVAL '10 seconds';
