import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.LogicalRDD;

/**
 * The scans of tables in an optimised plan, as JSON: for each the table's name, the columns that anything above it
 * reads, and the conditions that the rows above it fulfil. See `site_agent.engine.sql.table_scans`.
 *
 * The argument is a list: the plan, then in turn a table's name and the plan of its view, a LogicalRDD. Classes that
 * belong to one version of Spark are named here and nowhere else.
 */
public final class TableScans implements java.util.function.Function {
    /** Nodes whose own expressions say what they read; everything else that they give on comes under the same id. */
    private static final Set BY_REFERENCE = new HashSet(Arrays.asList(new String[] {
        "Aggregate", "Expand", "Filter", "Generate", "GlobalLimit", "Join", "LocalLimit", "Offset", "Project",
        "Repartition", "RepartitionByExpression", "Sort", "SubqueryAlias", "Window", "WindowGroupLimit"}));

    private final Map tables = new java.util.IdentityHashMap();
    private final Set read = new HashSet();
    private final List scans = new ArrayList();

    public Object apply(Object argument) {
        List parts = (List) argument;
        TableScans found = new TableScans();
        for (int i = 1; i < parts.size(); i += 2) {
            found.tables.put(((LogicalRDD) parts.get(i + 1)).rdd(), parts.get(i));
        }
        LogicalPlan plan = (LogicalPlan) parts.get(0);
        found.readAll(plan.output());
        found.noteRead(plan);
        found.noteScans(plan, null);
        try {
            return new com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(found.scans);
        } catch (java.io.IOException error) {
            throw new RuntimeException(error);
        }
    }

    /** Notes the ids of all attributes that are read in the plan and in its sub-queries. */
    private void noteRead(LogicalPlan plan) {
        scala.collection.Iterator children = plan.children().iterator();
        boolean leaf = !children.hasNext();
        if (!leaf) {
            scala.collection.Iterator names = plan.references().iterator();
            while (names.hasNext()) {
                read.add(id(names.next()));
            }
        }
        boolean byReference = BY_REFERENCE.contains(plan.getClass().getSimpleName());
        while (children.hasNext()) {
            LogicalPlan child = (LogicalPlan) children.next();
            if (!byReference) {
                readAll(child.output());
            }
            noteRead(child);
        }
        scala.collection.Iterator queries = plan.subqueries().iterator();
        while (queries.hasNext()) {
            LogicalPlan query = (LogicalPlan) queries.next();
            readAll(query.output());
            noteRead(query);
        }
    }

    private void readAll(scala.collection.Iterable attributes) {
        scala.collection.Iterator names = attributes.iterator();
        while (names.hasNext()) {
            read.add(id(names.next()));
        }
    }

    private static Long id(Object attribute) {
        return Long.valueOf(((Attribute) attribute).exprId().id());
    }

    /** Adds the plan's scans; the condition is that of a Filter right above it, or null. */
    private void noteScans(LogicalPlan plan, Expression condition) {
        if (plan instanceof LogicalRDD && tables.containsKey(((LogicalRDD) plan).rdd())) {
            addScan((LogicalRDD) plan, condition);
        }
        Expression own = plan instanceof Filter ? ((Filter) plan).condition() : null;
        scala.collection.Iterator children = plan.children().iterator();
        while (children.hasNext()) {
            noteScans((LogicalPlan) children.next(), own);
        }
        scala.collection.Iterator queries = plan.subqueries().iterator();
        while (queries.hasNext()) {
            noteScans((LogicalPlan) queries.next(), null);
        }
    }

    private void addScan(LogicalRDD plan, Expression condition) {
        Map names = new HashMap();
        List columns = new ArrayList();
        scala.collection.Iterator output = plan.output().iterator();
        while (output.hasNext()) {
            Attribute attribute = (Attribute) output.next();
            names.put(id(attribute), attribute.name());
            if (read.contains(id(attribute))) {
                columns.add(attribute.name());
            }
        }
        List conditions = new ArrayList();
        addConditions(condition, names, conditions);
        Map scan = new LinkedHashMap();
        scan.put("table", tables.get(plan.rdd()));
        scan.put("columns", columns);
        scan.put("conditions", conditions);
        scans.add(scan);
    }

    private static void addConditions(Expression condition, Map names, List conditions) {
        if (condition instanceof And) {
            addConditions(((And) condition).left(), names, conditions);
            addConditions(((And) condition).right(), names, conditions);
        } else if (condition != null) {
            Map found = expression(condition, names);
            found.put("sql", condition.sql());
            conditions.add(found);
        }
    }

    /** Attributes get the names of the table: in an expression they are spelled as the user has. */
    private static Map expression(Expression value, Map names) {
        Map found = new LinkedHashMap();
        String kind = value.getClass().getSimpleName();
        if (value instanceof SubqueryExpression) {
            kind = "SubqueryExpression";
        } else if (!value.deterministic()) {
            kind = "Nondeterministic";
        }
        found.put("kind", kind);
        found.put("type", value.resolved() ? value.dataType().sql() : "");
        List arguments = new ArrayList();
        if (value instanceof Attribute) {
            found.put("text", names.get(id(value)));
        } else if (value instanceof Literal) {
            found.put("text", ((Literal) value).value() == null ? null : value.toString());
        } else if (value instanceof Like) {
            found.put("text", String.valueOf(((Like) value).escapeChar()));
        }
        scala.collection.Iterator children = value.children().iterator();
        while (children.hasNext()) {
            arguments.add(expression((Expression) children.next(), names));
        }
        if (value instanceof InSet) {
            found.put("kind", "In");
            addValues((InSet) value, names, arguments);
        }
        found.put("arguments", arguments);
        return found;
    }

    private static void addValues(InSet set, Map names, List arguments) {
        scala.collection.Iterator values = set.hset().iterator();
        while (values.hasNext()) {
            arguments.add(expression(new Literal(values.next(), set.child().dataType()), names));
        }
    }
}
