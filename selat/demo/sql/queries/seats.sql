-- Seats that left New York each week, by the time zone they went to.
SELECT window.start AS week, a.tzone, count(*) AS departures, sum(p.seats) AS seats
FROM flights f JOIN planes p ON f.tailnum = p.tailnum JOIN airports a ON f.dest = a.faa
WHERE f.dep_time IS NOT NULL
GROUP BY window(f.time_hour, '7 days'), a.tzone
