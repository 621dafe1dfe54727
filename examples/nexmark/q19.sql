-- q19: Auction top 10
-- Refused: SYNTAX_ERROR: unexpected EMIT: an operator, a comma or the next clause is expected

SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
FROM bid
QUALIFY rank_number <= 10
EMIT EVERY INTERVAL '10 seconds';
