import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/**
 * All parts of a parsed statement, as JSON: for each part its class, its line and column (0: unknown), and the texts
 * directly in it, such as the name of a function or relation. No part is left out: an object that is neither a product,
 * a collection nor a plain value has an entry with its class, too.
 *
 * Python would need some 20 calls into the JVM for each part; this is one call. See `site_agent.engine.sql.statements`.
 */
public final class PlanParts implements java.util.function.Function {
    public Object apply(Object plan) {
        List entries = new ArrayList();
        ArrayDeque waiting = new ArrayDeque();
        waiting.push(new Object[] {plan, new ArrayList()});
        while (!waiting.isEmpty()) {
            Object[] next = (Object[]) waiting.pop();
            List children = new ArrayList();
            List texts = take(next[0], (List) next[1], children, entries);
            Collections.reverse(children);
            for (int i = 0; i < children.size(); i++) {
                waiting.push(new Object[] {children.get(i), texts});
            }
        }
        try {
            return new com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(entries);
        } catch (java.io.IOException error) {
            throw new RuntimeException(error);
        }
    }

    /** Adds the value's children, and an entry if it has one; returns the list for texts among the children. */
    private static List take(Object value, List texts, List children, List entries) {
        if (value == null || value instanceof Boolean || value instanceof Number) {
            return texts;
        }
        if (value instanceof String) {
            texts.add(value);
        } else if (value instanceof scala.Option) {
            addAll(((scala.Option) value).iterator(), children);
        } else if (value instanceof scala.collection.Iterable) {
            addAll(((scala.collection.Iterable) value).iterator(), children);
        } else {
            List own = new ArrayList();
            entries.add(entry(value, own));
            if (value instanceof scala.Product) {
                addAll(((scala.Product) value).productIterator(), children);
            } else if (value instanceof Map) {
                children.addAll(((Map) value).keySet());
                children.addAll(((Map) value).values());
            }
            return own;
        }
        return texts;
    }

    private static void addAll(scala.collection.Iterator values, List children) {
        while (values.hasNext()) {
            children.add(values.next());
        }
    }

    private static List entry(Object value, List texts) {
        int line = 0;
        int column = 0;
        if (value instanceof TreeNode) {
            Origin origin = ((TreeNode) value).origin();
            if (origin.line().isDefined() && origin.startPosition().isDefined()) {
                line = ((Integer) origin.line().get()).intValue();
                column = ((Integer) origin.startPosition().get()).intValue() + 1;
            }
        }
        List entry = new ArrayList();
        entry.add(value.getClass().getName());
        entry.add(Integer.valueOf(line));
        entry.add(Integer.valueOf(column));
        entry.add(texts);
        return entry;
    }
}
