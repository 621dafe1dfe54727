-- How late did each airline leave, day by day?
SELECT window.start AS day, a.name AS airline, count(f.dep_delay) AS departures, avg(f.dep_delay) AS mean_delay
FROM flights f JOIN airlines a ON f.carrier = a.carrier
GROUP BY window(f.time_hour, '1 day'), a.name
