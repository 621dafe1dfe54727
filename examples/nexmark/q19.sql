-- q19: Auction top 10

SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
FROM bid
QUALIFY rank_number <= 10
EMIT EVERY INTERVAL '10 seconds';
