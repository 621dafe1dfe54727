package selat;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.CollectMetricsExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeLike;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.AccumulatorContext$;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A physical plan that is made once and run for each epoch, in the calling thread and without a Spark job.
 *
 * <p>Not safe for several threads at once.
 */
public final class KeptPlan {
    private static final int BATCH_ROWS = 65_536;

    /** Ids of attempts; Spark's own begin at 0 and do not come so far. */
    private static final Path SCHEDSTAT = Paths.get("/proc/thread-self/schedstat");
    private static final AtomicLong ATTEMPTS = new AtomicLong(1L << 40);

    private final SparkSession session;
    private final StructType schema;
    private final boolean deterministic;
    private final SparkPlan plan;
    private final Properties properties = new Properties();
    private final String places;
    private RDD<InternalRow> rdd;
    private Partition[] partitions;
    private FilePlaces files;

    /**
     * @param places path of the directory whose files stand for those that `run` is given; it need not exist
     */
    public KeptPlan(Dataset<Row> rows, String places) {
        this.places = places;
        session = rows.sparkSession();
        // Nodes of a plan take the session of the thread that makes them.
        SparkSession.setActiveSession(session);
        schema = rows.schema();
        deterministic = rows.queryExecution().analyzed().deterministic();
        plan = withoutExchanges(rows.queryExecution().executedPlan());
        // Tasks read the session's configuration from these.
        for (Tuple2<String, String> entry : CollectionConverters.asJava(session.conf().getAll().toSeq())) {
            if (entry._1().startsWith("spark.sql.")) {
                properties.setProperty(entry._1(), entry._2());
            }
        }
    }

    /**
     * Why the plan cannot be kept; empty: it can.
     *
     * @param places how many there are for files
     */
    public String refusal(int places) {
        if (!deterministic) {
            return "it is not deterministic";
        }
        if (!plan.subqueriesAll().isEmpty()) {
            return "it has sub-queries, whose first result would stay";
        }
        if (broadcastsSlots(plan)) {
            return "it broadcasts rows of the epoch, and the first would stay";
        }
        prepare();
        if (partitions.length != 1) {
            return "it has " + partitions.length + " partitions";
        }
        if (!files.areEach(places)) {
            return "a reader of files has other than " + places + " places";
        }
        return shuffles(rdd) ? "it has an exchange, whose first rows would stay" : "";
    }

    /**
     * Runs the plan over what the slots hold now, and writes its rows to a file as an Arrow stream.
     *
     * @param files a line for each place of a reader of files, as `FilePlaces` has it; empty when there are none
     * @return lines, of values separated by tabs: `waited`, then nanoseconds for which the thread waited for a CPU;
     *     `observed`, then the observed values; or `operator`, then a node's
     *     name and its rows, from the input to the output
     */
    public String run(String place, String inputView, String files) throws IOException {
        try {
            long waitedNs = cpuWaitNs();
            prepare();
            this.files.put(files);
            plan.resetMetrics();
            write(place);
            StringBuilder counters = new StringBuilder();
            counters.append("waited\t").append(cpuWaitNs() - waitedNs).append('\n');
            count(plan, "BatchScan " + inputView, counters);
            return counters.toString();
        } catch (VirtualMachineError | LinkageError error) {
            // As a cause: the bridge to Python answers with exceptions only.
            throw new IllegalStateException(error);
        }
    }

    /** How long this thread has waited for a CPU since it began; 0 where the kernel does not count it. */
    private static long cpuWaitNs() {
        try {
            return Long.parseLong(Files.readString(SCHEDSTAT).split("\\s+")[1]);
        } catch (IOException | RuntimeException unknown) {
            return 0;
        }
    }

    private void prepare() {
        if (rdd == null) {
            SparkSession.setActiveSession(session);
            rdd = plan.execute();
            partitions = rdd.partitions();
            files = FilePlaces.of(rdd, places);
        }
    }

    private void write(String place) throws IOException {
        try (FileChannel channel =
                FileChannel.open(
                        Paths.get(place),
                        StandardOpenOption.CREATE,
                        StandardOpenOption.WRITE,
                        StandardOpenOption.TRUNCATE_EXISTING)) {
            ArrowWriter writer = ArrowWriter.create(schema, "UTC", true, false);
            try (VectorSchemaRoot root = writer.root();
                    ArrowStreamWriter stream = new ArrowStreamWriter(root, null, channel)) {
                stream.start();
                for (Partition partition : partitions) {
                    writePartition(partition, writer, stream);
                }
                stream.end();
            }
        }
    }

    /** What an executor does around a task: a context, memory of its own, and the release of both. */
    private void writePartition(Partition partition, ArrowWriter writer, ArrowStreamWriter stream) throws IOException {
        SparkEnv env = SparkEnv.get();
        long attempt = ATTEMPTS.incrementAndGet();
        TaskMemoryManager memory = new TaskMemoryManager(env.memoryManager(), attempt);
        TaskContextImpl context =
                new TaskContextImpl(
                        0,
                        0,
                        partition.index(),
                        attempt,
                        0,
                        partitions.length,
                        memory,
                        properties,
                        env.metricsSystem(),
                        TaskMetrics.empty(),
                        scala.math.BigDecimal.exact(1),
                        Map$.MODULE$.empty());
        TaskContext$.MODULE$.setTaskContext(context);
        env.blockManager().registerTask(attempt);
        Throwable failure = null;
        try {
            writeRows(rdd.iterator(partition, context), writer, stream);
        } catch (Throwable error) {
            failure = error;
            context.markTaskFailed(error);
            throw error;
        } finally {
            try {
                context.markTaskCompleted(Option.apply(failure));
            } finally {
                env.blockManager().releaseAllLocksForTask(attempt);
                memory.cleanUpAllAllocatedMemory();
                env.memoryManager().releaseAllExecutionMemoryForTask(attempt);
                TaskContext$.MODULE$.unset();
            }
        }
    }

    private static void writeRows(
            scala.collection.Iterator<InternalRow> rows, ArrowWriter writer, ArrowStreamWriter stream)
            throws IOException {
        while (rows.hasNext()) {
            for (int row = 0; row < BATCH_ROWS && rows.hasNext(); row++) {
                writer.write(rows.next());
            }
            writer.finish();
            stream.writeBatch();
            writer.reset();
        }
    }

    /** Spark keeps the output of a shuffle. Between single partitions none is needed. */
    private static SparkPlan withoutExchanges(SparkPlan node) {
        if (node instanceof ShuffleExchangeExec exchange && exchange.outputPartitioning().numPartitions() == 1) {
            return new CoalesceExec(1, withoutExchanges(exchange.child()));
        }
        List<SparkPlan> children = new ArrayList<>();
        boolean same = true;
        for (SparkPlan child : childrenOf(node)) {
            SparkPlan made = withoutExchanges(child);
            same &= made == child;
            children.add(made);
        }
        return same ? node : (SparkPlan) node.withNewChildren(CollectionConverters.asScala(children).toSeq());
    }

    private static boolean broadcastsSlots(SparkPlan node) {
        if (node instanceof BroadcastExchangeLike) {
            return readsSlot(node);
        }
        return childrenOf(node).stream().anyMatch(KeptPlan::broadcastsSlots);
    }

    private static boolean readsSlot(SparkPlan node) {
        if (node instanceof ReusedExchangeExec reused) {
            return readsSlot(reused.child());
        }
        return node.nodeName().startsWith("BatchScan ")
                || node instanceof CollectMetricsExec
                || childrenOf(node).stream().anyMatch(KeptPlan::readsSlot);
    }

    private static boolean shuffles(RDD<?> rdd) {
        for (Dependency<?> dependency : CollectionConverters.asJava(rdd.dependencies())) {
            if (dependency instanceof ShuffleDependency || shuffles(dependency.rdd())) {
                return true;
            }
        }
        return false;
    }

    /** Whether the input lies below the node; then the counters from there up to it are written. */
    private static boolean count(SparkPlan node, String input, StringBuilder counters) {
        if (node instanceof CollectMetricsExec metrics) {
            counters.append("observed");
            InternalRow row = observed(metrics);
            for (int i = 0; i < row.numFields(); i++) {
                counters.append('\t').append(row.isNullAt(i) ? "" : Long.toString(row.getLong(i)));
            }
            counters.append('\n');
            return true;
        }
        boolean below = node.nodeName().equals(input);
        for (SparkPlan child : childrenOf(node)) {
            below = below || count(child, input, counters);
        }
        if (!below) {
            return false;
        }
        if (node.metrics().contains("numOutputRows")) {
            SQLMetric rows = node.metrics().apply("numOutputRows");
            counters.append("operator\t").append(node.nodeName()).append('\t').append(rows.value()).append('\n');
        }
        return true;
    }

    /** An observation is reported to Spark's listeners by jobs alone; its accumulator has it too. */
    private static InternalRow observed(CollectMetricsExec metrics) {
        AccumulatorV2<?, ?> accumulator = AccumulatorContext$.MODULE$.get(metrics.accumulatorId()).get();
        return (InternalRow) accumulator.value();
    }

    private static List<SparkPlan> childrenOf(SparkPlan node) {
        return CollectionConverters.asJava(node.children());
    }
}
