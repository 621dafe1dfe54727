-- q7: Highest bid

SELECT auction, price, bidder, dateTime, extra
FROM bid
QUALIFY rank() OVER (PARTITION BY window(dateTime, '10 seconds') ORDER BY price DESC) = 1;
