package selat;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.Dependency;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The places of files in a plan that is kept: Spark's readers find in each the file that was put there last.
 *
 * <p>Such a plan is made over files that stand for others. Spark lists them when it makes the readers, and opens what
 * the list names when they run.
 */
final class FilePlaces {
    /** By reader: a statement may read its input twice. */
    private final List<List<Place>> readers = new ArrayList<>();

    private record Place(PartitionedFile[] files, int index) {}

    /** The places of all readers over files of a directory, which is given by its path. */
    static FilePlaces of(RDD<?> rdd, String directory) {
        FilePlaces found = new FilePlaces();
        found.collect(rdd, directory + "/");
        return found;
    }

    /** Whether each reader has this many places. */
    boolean areEach(int count) {
        return readers.stream().allMatch(places -> places.size() == count);
    }

    /**
     * Puts files into the places.
     *
     * @param lines a line for each place, of values separated by tabs: URI, size in bytes, milliseconds of its change
     */
    void put(String lines) {
        String[] files = lines.isEmpty() ? new String[0] : lines.split("\n");
        for (List<Place> places : readers) {
            for (int i = 0; i < files.length; i++) {
                Place place = places.get(i);
                place.files()[place.index()] = replaced(place.files()[place.index()], files[i].split("\t"));
            }
        }
    }

    private static PartitionedFile replaced(PartitionedFile file, String[] values) {
        long size = Long.parseLong(values[1]);
        return new PartitionedFile(
                file.partitionValues(),
                SparkPath.fromUrlString(values[0]),
                0,
                size,
                file.locations(),
                Long.parseLong(values[2]),
                size,
                file.otherConstantMetadataColumnValues());
    }

    private void collect(RDD<?> rdd, String directory) {
        if (rdd instanceof FileScanRDD reader) {
            List<Place> places = new ArrayList<>();
            for (FilePartition partition : CollectionConverters.asJava(reader.filePartitions())) {
                for (int i = 0; i < partition.files().length; i++) {
                    String path = partition.files()[i].toPath().toUri().getPath();
                    if (path.startsWith(directory)) {
                        places.add(new Place(partition.files(), i));
                    }
                }
            }
            if (!places.isEmpty()) {
                readers.add(places);
            }
        }
        for (Dependency<?> dependency : CollectionConverters.asJava(rdd.dependencies())) {
            collect(dependency.rdd(), directory);
        }
    }
}
