SELECT week_of(f.time_hour) AS week, a.tzone, count(*) AS departures, sum(p.seats) AS seats
FROM flights f JOIN planes p ON f.tailnum = p.tailnum JOIN airports a ON f.dest = a.faa
WHERE f.dep_time IS NOT NULL
GROUP BY ALL
