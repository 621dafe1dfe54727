SELECT day_of(f.time_hour) AS day, a.name AS airline, count(f.dep_delay) AS departures, avg(f.dep_delay) AS mean_delay
FROM flights f JOIN airlines a ON f.carrier = a.carrier
GROUP BY ALL
