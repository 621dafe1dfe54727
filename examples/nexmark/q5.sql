-- q5: Hot items

SELECT auction, count(*) AS num
FROM bid
GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')
QUALIFY rank() OVER (PARTITION BY window ORDER BY num DESC) = 1;
