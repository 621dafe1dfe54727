package selat;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * The leaf of a kept plan: the rows of an Arrow stream in a file whose path stays while its content changes.
 *
 * <p>Options: `path`, a file of this machine; `view`, the name that the plan shows. The schema has to be given.
 */
public final class SlotSource implements TableProvider {
    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        throw new UnsupportedOperationException("a slot has no schema of its own");
    }

    @Override
    public boolean supportsExternalMetadata() {
        return true;
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new Slot(schema, properties.get("path"), properties.get("view"));
    }

    private static final class Slot implements SupportsRead, ScanBuilder, Scan, Batch {
        private final StructType schema;
        private final String path;
        private final String view;

        Slot(StructType schema, String path, String view) {
            this.schema = schema;
            this.path = path;
            this.view = view;
        }

        @Override
        public String name() {
            return view;
        }

        @Override
        public StructType schema() {
            return schema;
        }

        @Override
        public Set<TableCapability> capabilities() {
            return EnumSet.of(TableCapability.BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return this;
        }

        @Override
        public Scan build() {
            return this;
        }

        @Override
        public StructType readSchema() {
            return schema;
        }

        @Override
        public Batch toBatch() {
            return this;
        }

        @Override
        public InputPartition[] planInputPartitions() {
            return new InputPartition[] {new Place(path)};
        }

        @Override
        public PartitionReaderFactory createReaderFactory() {
            return new Readers();
        }
    }

    private record Place(String path) implements InputPartition {}

    private static final class Readers implements PartitionReaderFactory {
        @Override
        public PartitionReader<InternalRow> createReader(InputPartition place) {
            throw new UnsupportedOperationException("a slot is read by columns");
        }

        @Override
        public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition place) {
            return new Reader(((Place) place).path());
        }

        @Override
        public boolean supportColumnarReads(InputPartition place) {
            return true;
        }
    }

    /** Spark closes the vectors of a batch once it has read them; these are filled again with the next batch. */
    private static final class LastingVector extends ArrowColumnVector {
        LastingVector(FieldVector vector) {
            super(vector);
        }

        @Override
        public void closeIfFreeable() {}
    }

    private static final class Reader implements PartitionReader<ColumnarBatch> {
        private final String path;
        private BufferAllocator allocator;
        private ArrowStreamReader stream;
        private ColumnarBatch batch;

        Reader(String path) {
            this.path = path;
        }

        @Override
        public boolean next() throws IOException {
            if (stream == null) {
                allocator = ArrowUtils.rootAllocator().newChildAllocator("slot", 0, Long.MAX_VALUE);
                stream = new ArrowStreamReader(FileChannel.open(Paths.get(path), StandardOpenOption.READ), allocator);
            }
            if (!stream.loadNextBatch()) {
                return false;
            }
            if (batch == null) {
                List<FieldVector> vectors = stream.getVectorSchemaRoot().getFieldVectors();
                batch = new ColumnarBatch(vectors.stream().map(LastingVector::new).toArray(ColumnVector[]::new));
            }
            batch.setNumRows(stream.getVectorSchemaRoot().getRowCount());
            return true;
        }

        @Override
        public ColumnarBatch get() {
            return batch;
        }

        @Override
        public void close() throws IOException {
            try {
                if (stream != null) {
                    stream.close();
                    stream = null;
                }
            } finally {
                if (allocator != null) {
                    allocator.close();
                    allocator = null;
                }
            }
        }
    }
}
