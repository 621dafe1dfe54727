-- q6: Average selling price by seller

SELECT seller, avg(final) OVER (PARTITION BY seller ORDER BY closed ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS price
FROM (
  SELECT A.seller, A.expires AS closed, B.price AS final
  FROM auction AS A
  JOIN bid AS B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
  QUALIFY row_number() OVER (PARTITION BY A.id, A.dateTime, A.expires ORDER BY B.price DESC, B.dateTime) = 1
) AS Q;
