package selat;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataTypes;

/**
 * A number in a kept plan that may be another in each epoch.
 *
 * <p>To Spark it is an array, the same in all epochs: generated code refers to it and does not contain it.
 */
public final class Changing {
    private final UnsafeArrayData array = UnsafeArrayData.fromPrimitiveArray(new long[1]);

    /** An array of one element; an index that is no literal keeps Spark from replacing the element by its value. */
    public Column array() {
        return ExpressionUtils.column(new Literal(array, DataTypes.createArrayType(DataTypes.LongType, false)));
    }

    public void set(long value) {
        array.setLong(0, value);
    }
}
