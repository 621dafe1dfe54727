-- q12: Processing time windows
-- Refused: INVALID_DEFINITION: the stream has no column arrived

CREATE STREAM bid_by_arrival (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING,
  WATERMARK FOR arrived
)
WITH ('connector' = 'generator', 'preset' = 'nexmark_bid', 'start' = '2026-01-31T23:59:00Z',
      'rows_per_second' = '46', 'rows' = '5520')
AT us, AT eu, AT asia;

SELECT bidder, count(*) AS bid_count, window.start AS starttime, window.end AS endtime
FROM bid_by_arrival
GROUP BY bidder, window(arrived, '10 seconds');
