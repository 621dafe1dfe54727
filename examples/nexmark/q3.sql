-- q3: Local item suggestion

SELECT P.name, P.city, P.state, A.id
FROM auction AS A
JOIN person AS P ON A.seller = P.id
 AND A.dateTime BETWEEN P.dateTime - INTERVAL '1 hour' AND P.dateTime + INTERVAL '1 day'
WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA');
