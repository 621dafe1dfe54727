-- The three destinations that were reached latest, day by day, among those with five arrivals or more.
SELECT window.start AS day, dest, count(arr_delay) AS arrivals, avg(arr_delay) AS mean_delay
FROM flights
GROUP BY window(time_hour, '1 day'), dest
HAVING count(arr_delay) >= 5
QUALIFY row_number() OVER (PARTITION BY window ORDER BY avg(arr_delay) DESC, dest) <= 3
