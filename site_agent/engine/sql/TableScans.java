import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.execution.LogicalRDD;

/**
 * The scans of tables in an optimised plan, as JSON: for each the table's name, the columns that anything above it
 * reads, the conditions that the rows above it fulfil, and whether equal rows count once. See `site_agent.engine.sql.table_scans`.
 *
 * The argument is a list: the plan, then in turn a table's name and the plan of its view, a LogicalRDD. Classes that
 * belong to one version of Spark are named here and nowhere else.
 */
public final class TableScans implements java.util.function.Function {
    /** Nodes whose own expressions say what they read; everything else that they give on comes under the same id. */
    private static final Set BY_REFERENCE = new HashSet(Arrays.asList(new String[] {
        "Aggregate", "Expand", "Filter", "Generate", "GlobalLimit", "Join", "LocalLimit", "Offset", "Project",
        "Repartition", "RepartitionByExpression", "Sort", "SubqueryAlias", "Window", "WindowGroupLimit"}));

    /** Nodes that give for each row of their input what they would give without the others, under the same ids. */
    private static final Set BY_ROW = new HashSet(Arrays.asList(new String[] {
        "Filter", "Generate", "Repartition", "RepartitionByExpression", "Sort", "SubqueryAlias"}));

    /** Nodes that leave rows out by what others there are. */
    private static final Set FIRST_ROWS = new HashSet(Arrays.asList(new String[] {
        "GlobalLimit", "LocalLimit", "Offset", "WindowGroupLimit"}));

    /** Nodes that give the same different rows whether those of their input are there once or several times. */
    private static final Set AS_SETS = new HashSet(Arrays.asList(new String[] {
        "Expand", "Filter", "Generate", "Project", "Repartition", "RepartitionByExpression", "Sort", "SubqueryAlias",
        "Union"}));

    /** Joins of which the same is true for both sides. */
    private static final Set SETS_JOINED = new HashSet(Arrays.asList(new String[] {
        "Cross", "FullOuter", "Inner", "LeftOuter", "RightOuter"}));

    /** Nodes that keep rows together that are equal in all that their own expressions read. */
    private static final Set BY_VALUE = new HashSet(Arrays.asList(new String[] {
        "Aggregate", "Expand", "Filter", "Generate", "Join", "Project", "Repartition", "RepartitionByExpression",
        "Sort", "SubqueryAlias"}));

    /** Functions of which a column's other values may be the same. */
    private static final Set FUNCTIONS = new HashSet(Arrays.asList(new String[] {
        "Month", "Quarter", "Substring", "TruncDate", "TruncTimestamp", "Year"}));

    private final Map tables = new java.util.IdentityHashMap();
    private final Set read = new HashSet();

    /** Attributes that more than the Filter right above a scan reads. */
    private final Set readAbove = new HashSet();

    /** Attributes that more than sums, averages and counts of them read. */
    private final Set readAsValue = new HashSet();

    /** Attributes that more than counts of them read. */
    private final Set readAsSummand = new HashSet();
    /** Attributes that more than these functions of them read, and whether they are NULL. */
    private final Set readWhole = new HashSet();

    /** Lists of the functions that read attributes, by their ids. */
    private final Map functions = new HashMap();
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
        found.noteScans(plan, null, false);
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
            boolean above = !(plan instanceof Filter && isScan(((Filter) plan).child()));
            scala.collection.Iterator names = plan.references().iterator();
            while (names.hasNext()) {
                noteRead(id(names.next()), above);
            }
        }
        noteValues(plan);
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
        noteAsValues(attributes);
        noteWhole(attributes);
        scala.collection.Iterator names = attributes.iterator();
        while (names.hasNext()) {
            noteRead(id(names.next()), true);
        }
    }

    private void noteRead(Long id, boolean above) {
        read.add(id);
        if (above) {
            readAbove.add(id);
        }
    }

    /**
     * Notes what the plan's own expressions read as a value, and not as a summand, and what they read as a whole. A Project
     * and an Expand pass on what they name under the same id.
     */
    private void noteValues(LogicalPlan plan) {
        if (!BY_VALUE.contains(plan.getClass().getSimpleName()) || !plan.deterministic()) {
            noteAsValues(plan.references());
            noteWhole(plan.references());
            scala.collection.Iterator children = plan.children().iterator();
            while (children.hasNext()) {
                noteAsValues(((LogicalPlan) children.next()).output());
            }
        } else if (plan instanceof Project) {
            noteUnlessPassed(((Project) plan).projectList(), ids(plan.output()));
        } else if (plan instanceof Expand) {
            scala.collection.Iterator rows = ((Expand) plan).projections().iterator();
            while (rows.hasNext()) {
                noteExpanded(((scala.collection.Iterable) rows.next()).iterator(), plan.output().iterator());
            }
        } else {
            scala.collection.Iterator own = plan.expressions().iterator();
            while (own.hasNext()) {
                Expression expression = (Expression) own.next();
                noteSummands(expression);
                noteFunctions(expression);
            }
        }
    }

    private void noteUnlessPassed(scala.collection.Iterable expressions, Set passed) {
        scala.collection.Iterator all = expressions.iterator();
        while (all.hasNext()) {
            Expression expression = (Expression) all.next();
            if (!(expression instanceof Attribute) || !passed.contains(id(expression))) {
                noteAsValues(expression.references());
                noteFunctions(expression);
            }
        }
    }

    private void noteExpanded(scala.collection.Iterator row, scala.collection.Iterator output) {
        while (row.hasNext()) {
            Expression expression = (Expression) row.next();
            Long out = id(output.next());
            if (!(expression instanceof Attribute) || !id(expression).equals(out)) {
                noteAsValues(expression.references());
                noteFunctions(expression);
            }
        }
    }

    private void noteSummands(Expression expression) {
        if (expression instanceof AggregateExpression) {
            AggregateExpression aggregate = (AggregateExpression) expression;
            AggregateFunction function = aggregate.aggregateFunction();
            boolean counts = function instanceof Count;
            boolean sums = counts || function instanceof Sum || function instanceof Average;
            if (sums && !aggregate.isDistinct() && function.children().size() == 1) {
                Expression summand = (Expression) function.children().head();
                if (summand instanceof Attribute) {
                    if (!counts) {
                        readAsSummand.add(id(summand));
                    }
                } else {
                    noteAsValues(summand.references());
                }
                if (aggregate.filter().isDefined()) {
                    noteAsValues(((Expression) aggregate.filter().get()).references());
                }
            } else {
                noteAsValues(aggregate.references());
            }
        } else if (expression instanceof Attribute || expression instanceof SubqueryExpression) {
            noteAsValues(expression.references());
        } else {
            scala.collection.Iterator parts = expression.children().iterator();
            while (parts.hasNext()) {
                noteSummands((Expression) parts.next());
            }
        }
    }

    /** Notes which attributes the expression reads as a whole, and of which it needs no more than a function. */
    private void noteFunctions(Expression expression) {
        Attribute argument = onlyAttribute(expression);
        String kind = expression.getClass().getSimpleName();
        if (argument != null && FUNCTIONS.contains(kind)) {
            if (!functions.containsKey(id(argument))) {
                functions.put(id(argument), new ArrayList());
            }
            ((List) functions.get(id(argument))).add(expression);
        } else if (expression instanceof Attribute || expression instanceof SubqueryExpression) {
            noteWhole(expression.references());
        } else if (argument == null || !(kind.equals("IsNull") || kind.equals("IsNotNull"))) {
            scala.collection.Iterator parts = expression.children().iterator();
            while (parts.hasNext()) {
                noteFunctions((Expression) parts.next());
            }
        }
    }

    /** The attribute among an expression's children, where the others are literals; or null. */
    private static Attribute onlyAttribute(Expression expression) {
        Attribute found = null;
        scala.collection.Iterator parts = expression.children().iterator();
        while (parts.hasNext()) {
            Object part = parts.next();
            if (part instanceof Attribute && found == null) {
                found = (Attribute) part;
            } else if (!(part instanceof Literal)) {
                return null;
            }
        }
        return found;
    }

    private void noteWhole(scala.collection.Iterable attributes) {
        scala.collection.Iterator names = attributes.iterator();
        while (names.hasNext()) {
            readWhole.add(id(names.next()));
        }
    }

    private void noteAsValues(scala.collection.Iterable attributes) {
        scala.collection.Iterator names = attributes.iterator();
        while (names.hasNext()) {
            readAsValue.add(id(names.next()));
        }
    }

    private boolean isScan(LogicalPlan plan) {
        return plan instanceof LogicalRDD && tables.containsKey(((LogicalRDD) plan).rdd());
    }

    private static Long id(Object attribute) {
        return Long.valueOf(((Attribute) attribute).exprId().id());
    }

    /**
     * Adds the plan's scans; the condition is that of a Filter right above it, or null. `asSet`: what is above the plan
     * gives the same whether equal rows of the plan's output are there once or several times.
     *
     * Returns for the ids of attributes of the output where their values come from, as far as that is known: the number
     * of a scan, its column, whether the plan gives the same rows for a value whether other values are there or not, and
     * whether each row of the scan is in the output once at most.
     * Scans are told apart by their place: the same node may stand at several.
     */
    private Map noteScans(LogicalPlan plan, Expression condition, boolean asSet) {
        Map found = new HashMap();
        if (isScan(plan)) {
            found = addScan((LogicalRDD) plan, condition, asSet);
        }
        Expression own = plan instanceof Filter ? ((Filter) plan).condition() : null;
        List below = new ArrayList();
        scala.collection.Iterator children = plan.children().iterator();
        while (children.hasNext()) {
            below.add(noteScans((LogicalPlan) children.next(), own, readAsSet(plan, below.size(), asSet)));
        }
        scala.collection.Iterator queries = plan.subqueries().iterator();
        while (queries.hasNext()) {
            noteScans((LogicalPlan) queries.next(), null, false);
        }
        if (plan instanceof Aggregate && condition != null) {
            noteThresholds((Aggregate) plan, condition, (Map) below.get(0));
        }
        return below.isEmpty() ? found : origins(plan, below);
    }

    /** Whether equal rows of a child count once, where those of the plan do or do not. */
    private static boolean readAsSet(LogicalPlan plan, int child, boolean asSet) {
        if (!plan.deterministic()) {
            return false;
        } else if (plan instanceof Aggregate) {
            return allOfSets(((Aggregate) plan).aggregateExpressions());
        } else if (plan instanceof Join) {
            String type = ((Join) plan).joinType().toString();
            boolean matches = type.equals("LeftSemi") || type.equals("LeftAnti") || type.startsWith("ExistenceJoin");
            return matches ? child == 1 || asSet : asSet && SETS_JOINED.contains(type);
        }
        return asSet && AS_SETS.contains(plan.getClass().getSimpleName());
    }

    /** Whether no aggregate in the expressions depends on how often a value is there. */
    private static boolean allOfSets(scala.collection.Iterable expressions) {
        scala.collection.Iterator all = expressions.iterator();
        while (all.hasNext()) {
            Object value = all.next();
            if (value instanceof AggregateExpression) {
                AggregateExpression aggregate = (AggregateExpression) value;
                AggregateFunction function = aggregate.aggregateFunction();
                if (!aggregate.isDistinct() && !(function instanceof Min) && !(function instanceof Max)) {
                    return false;
                }
            } else if (value instanceof AggregateFunction || !allOfSets(((Expression) value).children())) {
                return false;
            }
        }
        return true;
    }

    private Map origins(LogicalPlan plan, List below) {
        Map first = (Map) below.get(0);
        if (plan instanceof Join) {
            return joined((Join) plan, first, (Map) below.get(1));
        } else if (plan instanceof Project) {
            return named(((Project) plan).projectList(), first, null);
        } else if (plan instanceof Aggregate) {
            Map groups = named(((Aggregate) plan).aggregateExpressions(), first, ids(((Aggregate) plan).groupingExpressions()));
            return manifold(groups);
        } else if (plan instanceof Window) {
            return passedBy(first, ids(((Window) plan).partitionSpec()));
        }
        String kind = plan.getClass().getSimpleName();
        if (BY_ROW.contains(kind)) {
            return kind.equals("Generate") ? manifold(first) : first;
        }
        return FIRST_ROWS.contains(kind) ? passedBy(first, new HashSet()) : new HashMap();
    }

    /** The ids of those that are attributes. */
    private static Set ids(scala.collection.Iterable expressions) {
        Set found = new HashSet();
        scala.collection.Iterator all = expressions.iterator();
        while (all.hasNext()) {
            Object expression = all.next();
            if (expression instanceof Attribute) {
                found.add(id(expression));
            }
        }
        return found;
    }

    /** The origins of the expressions that are attributes; what is left out by one not among `groups` is not known. */
    private static Map named(scala.collection.Iterable expressions, Map below, Set groups) {
        Map known = groups == null ? below : passedBy(below, groups);
        Map found = new HashMap();
        scala.collection.Iterator all = expressions.iterator();
        while (all.hasNext()) {
            Expression expression = (Expression) all.next();
            Object outer = Long.valueOf(((NamedExpression) expression).exprId().id());
            while (expression instanceof Alias) {
                expression = ((Alias) expression).child();
            }
            if (expression instanceof Attribute && known.containsKey(id(expression))) {
                found.put(outer, known.get(id(expression)));
            }
        }
        return found;
    }

    /** The origins above a node that lets conditions pass on these attributes alone. */
    private static Map passedBy(Map below, Set passing) {
        Map found = new HashMap();
        Iterator entries = below.entrySet().iterator();
        while (entries.hasNext()) {
            Map.Entry entry = (Map.Entry) entries.next();
            Object[] origin = (Object[]) entry.getValue();
            boolean passes = passing.contains(entry.getKey()) && ((Boolean) origin[2]).booleanValue();
            found.put(entry.getKey(), new Object[] {origin[0], origin[1], Boolean.valueOf(passes), origin[3]});
        }
        return found;
    }

    /** The origins above a node that may have a row several times. */
    private static Map manifold(Map below) {
        Map found = new HashMap();
        Iterator entries = below.entrySet().iterator();
        while (entries.hasNext()) {
            Map.Entry entry = (Map.Entry) entries.next();
            Object[] origin = (Object[]) entry.getValue();
            found.put(entry.getKey(), new Object[] {origin[0], origin[1], origin[2], Boolean.FALSE});
        }
        return found;
    }

    /**
     * Notes of the scan below an aggregate which of its groups matter at most: those for which a sum or a count reaches
     * what the condition above compares it with. A sum is no more than that of the positive values of all rows, and
     * a count no more than their number: whatever filters rows before, once each at most, makes them less.
     */
    private void noteThresholds(Aggregate plan, Expression condition, Map below) {
        if (condition instanceof And) {
            noteThresholds(plan, ((And) condition).left(), below);
            noteThresholds(plan, ((And) condition).right(), below);
            return;
        }
        boolean greater = condition instanceof GreaterThan || condition instanceof GreaterThanOrEqual;
        if (!greater && !(condition instanceof LessThan) && !(condition instanceof LessThanOrEqual)) {
            return;
        }
        Object more = condition.children().apply(greater ? 0 : 1);
        Object less = condition.children().apply(greater ? 1 : 0);
        if (more instanceof Attribute && less instanceof Literal && ((Literal) less).value() != null) {
            AggregateFunction function = functionOf(plan, id(more));
            if (function instanceof Count || function instanceof Sum) {
                addThresholds(plan, function, less.toString(), below);
            }
        }
    }

    private static AggregateFunction functionOf(Aggregate plan, Long id) {
        scala.collection.Iterator named = plan.aggregateExpressions().iterator();
        while (named.hasNext()) {
            Object expression = named.next();
            if (expression instanceof Alias && ((Alias) expression).exprId().id() == id.longValue()) {
                Expression value = ((Alias) expression).child();
                return value instanceof AggregateExpression ? ((AggregateExpression) value).aggregateFunction() : null;
            }
        }
        return null;
    }

    private void addThresholds(Aggregate plan, AggregateFunction function, String atLeast, Map below) {
        Object value = function instanceof Sum ? function.children().head() : null;
        Object[] summand = value instanceof Attribute ? (Object[]) below.get(id(value)) : null;
        if (function instanceof Sum && summand == null) {
            return;
        }
        Iterator groups = ids(plan.groupingExpressions()).iterator();
        while (groups.hasNext()) {
            Object[] key = (Object[]) below.get(groups.next());
            boolean holds = key != null && ((Boolean) key[2]).booleanValue() && ((Boolean) key[3]).booleanValue();
            if (holds && (summand == null || summand[0].equals(key[0]))) {
                List thresholds = (List) ((Map) scans.get(((Integer) key[0]).intValue())).get("thresholds");
                thresholds.add(Arrays.asList(new Object[] {key[1], summand == null ? null : summand[1], atLeast}));
            }
        }
    }

    /** Notes which side's scan may be filtered by the keys of the other's. */
    private Map joined(Join join, Map left, Map right) {
        String type = join.joinType().toString();
        boolean inner = type.equals("Inner") || type.equals("Cross");
        boolean semi = type.equals("LeftSemi");
        boolean rightMatches = type.equals("LeftOuter") || type.equals("LeftAnti") || type.startsWith("ExistenceJoin");
        boolean known = inner || semi || rightMatches || type.equals("RightOuter");
        if (!known && !type.equals("FullOuter")) {
            return new HashMap();
        }
        if (known && join.condition().isDefined()) {
            noteKeys((Expression) join.condition().get(), left, right,
                inner || semi || type.equals("RightOuter"), inner || semi || rightMatches);
        }
        boolean once = semi || type.equals("LeftAnti") || type.startsWith("ExistenceJoin");
        Map found = new HashMap(inner || semi || rightMatches ? left : passedBy(left, new HashSet()));
        if (inner || type.equals("RightOuter")) {
            found.putAll(right);
        } else if (type.equals("LeftOuter") || type.equals("FullOuter")) {
            found.putAll(passedBy(right, new HashSet()));
        }
        Set both = new HashSet(left.keySet());
        both.retainAll(right.keySet());
        found.keySet().removeAll(both);
        return once ? found : manifold(found);
    }

    private void noteKeys(Expression condition, Map left, Map right, boolean leftMatches, boolean rightMatches) {
        if (condition instanceof And) {
            noteKeys(((And) condition).left(), left, right, leftMatches, rightMatches);
            noteKeys(((And) condition).right(), left, right, leftMatches, rightMatches);
        } else if (condition instanceof EqualTo) {
            Expression one = ((EqualTo) condition).left();
            Expression other = ((EqualTo) condition).right();
            if (one instanceof Attribute && other instanceof Attribute) {
                boolean inOrder = left.containsKey(id(one)) && right.containsKey(id(other));
                Object[] first = (Object[]) left.get(id(inOrder ? one : other));
                Object[] second = (Object[]) right.get(id(inOrder ? other : one));
                if (first != null && second != null && first[0] != second[0]) {
                    if (leftMatches) {
                        addFilter(first, second);
                    }
                    if (rightMatches) {
                        addFilter(second, first);
                    }
                }
            }
        }
    }

    private void addFilter(Object[] taker, Object[] giver) {
        if (((Boolean) taker[2]).booleanValue()) {
            List filters = (List) ((Map) scans.get(((Integer) taker[0]).intValue())).get("filters");
            filters.add(Arrays.asList(new Object[] {taker[1], giver[0], giver[1]}));
        }
    }

    private Map addScan(LogicalRDD plan, Expression condition, boolean asSet) {
        Map names = new HashMap();
        List columns = new ArrayList();
        List onlyInConditions = new ArrayList();
        List summed = new ArrayList();
        List counted = new ArrayList();
        List functionsOf = new ArrayList();
        scala.collection.Iterator output = plan.output().iterator();
        while (output.hasNext()) {
            Attribute attribute = (Attribute) output.next();
            names.put(id(attribute), attribute.name());
            if (read.contains(id(attribute))) {
                columns.add(attribute.name());
                if (!readAbove.contains(id(attribute))) {
                    onlyInConditions.add(attribute.name());
                }
                if (!readAsValue.contains(id(attribute))) {
                    (readAsSummand.contains(id(attribute)) ? summed : counted).add(attribute.name());
                }
                if (!readWhole.contains(id(attribute)) && functions.containsKey(id(attribute))) {
                    functionsOf.add(functionsOf(attribute));
                }
            }
        }
        List conditions = new ArrayList();
        addConditions(condition, names, conditions);
        Map scan = new LinkedHashMap();
        scan.put("table", tables.get(plan.rdd()));
        scan.put("columns", columns);
        scan.put("only_in_conditions", onlyInConditions);
        scan.put("summed", summed);
        scan.put("counted", counted);
        scan.put("functions", functionsOf);
        scan.put("conditions", conditions);
        scan.put("filters", new ArrayList());
        scan.put("thresholds", new ArrayList());
        scan.put("distinct", Boolean.valueOf(asSet));
        Map origins = new HashMap();
        Iterator ids = names.keySet().iterator();
        while (ids.hasNext()) {
            Object id = ids.next();
            origins.put(id, new Object[] {Integer.valueOf(scans.size()), names.get(id), Boolean.TRUE, Boolean.TRUE});
        }
        scans.add(scan);
        return origins;
    }

    /** An attribute's name, and the functions that read it. */
    private List functionsOf(Attribute attribute) {
        Map names = new HashMap();
        names.put(id(attribute), attribute.name());
        List found = new ArrayList();
        Iterator all = ((List) functions.get(id(attribute))).iterator();
        while (all.hasNext()) {
            Map function = expression((Expression) all.next(), names);
            if (!found.contains(function)) {
                found.add(function);
            }
        }
        return Arrays.asList(new Object[] {attribute.name(), found});
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
