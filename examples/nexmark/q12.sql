-- q12: Processing time windows

SELECT bidder, count(*) AS bid_count, window.start AS starttime, window.end AS endtime
FROM bid_by_arrival
GROUP BY bidder, window(arrived, '10 seconds');
