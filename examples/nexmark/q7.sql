-- q7: Highest bid

SELECT auction, price, bidder, dateTime, extra
FROM bid
GROUP BY window(dateTime, '10 seconds'), auction, price, bidder, dateTime, extra, site
QUALIFY rank() OVER (PARTITION BY window ORDER BY price DESC) = 1;
