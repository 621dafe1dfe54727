-- q18: Find last bid

SELECT auction, bidder, price, channel, url, dateTime, extra
FROM bid
QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) = 1
EMIT EVERY INTERVAL '10 seconds';
