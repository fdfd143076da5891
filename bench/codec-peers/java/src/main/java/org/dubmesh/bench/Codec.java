package org.dubmesh.bench;

import com.alibaba.com.caucho.hessian.io.Hessian2Input;
import com.alibaba.com.caucho.hessian.io.Hessian2Output;
import com.alibaba.com.caucho.hessian.io.SerializerFactory;
import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.TypeReference;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.reflect.Type;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * hessian-lite, with fastjson2 for JSON, on the bytes that our program wrote.
 *
 * <p>{@code check IN OUT} reads IN/SHAPE.hessian and writes what it understood as OUT/SHAPE.json and
 * OUT/SHAPE.hessian. {@code time IN SECONDS WARM-UP} prints a line of JSON for each shape and step.
 */
public final class Codec {
    private static final List<String> SHAPES =
            List.of("string-100", "pojo-12", "pojos-100", "map-50", "text-1m", "chinese-1m");
    private static final long BATCH_NS = 20_000_000;

    /** One for all, as in Dubbo: it remembers how classes are written. */
    private static final SerializerFactory FACTORY = new SerializerFactory();
    private static final Hessian2Input IN = new Hessian2Input(new ByteArrayInputStream(new byte[0]));
    private static final Hessian2Output OUT = new Hessian2Output(new ByteArrayOutputStream());
    private static final ByteArrayOutputStream BYTES = new ByteArrayOutputStream(1 << 21);

    /** What steps make, so that nothing is optimized away. */
    public static volatile Object sink;

    private interface Step {
        Object run() throws IOException;
    }

    public static void main(String[] args) throws Exception {
        IN.setSerializerFactory(FACTORY);
        OUT.setSerializerFactory(FACTORY);
        Path from = Path.of(args[1]);
        for (String shape : SHAPES) {
            byte[] hessian = Files.readAllBytes(from.resolve(shape + ".hessian"));
            byte[] json = Files.readAllBytes(from.resolve(shape + ".json"));
            Object value = decode(hessian);
            if (args[0].equals("check")) {
                Path to = Path.of(args[2]);
                Files.createDirectories(to);
                Files.write(to.resolve(shape + ".json"), JSON.toJSONBytes(value));
                Object again = JSON.parseObject(json, type(shape));
                if (!JSON.toJSONString(again).equals(JSON.toJSONString(value)) && !shape.startsWith("map")) {
                    throw new IllegalStateException(shape + " is another value as JSON");
                }
                Files.write(to.resolve(shape + ".hessian"), encode(again));
                continue;
            }
            double seconds = Double.parseDouble(args[2]);
            double warmUp = Double.parseDouble(args[3]);
            Type type = type(shape);
            measure(shape + "/encode", seconds, warmUp, () -> write(value));
            measure(shape + "/decode", seconds, warmUp, () -> decode(hessian));
            measure(shape + "/to-json", seconds, warmUp, () -> JSON.toJSONBytes(decode(hessian)));
            measure(shape + "/from-json", seconds, warmUp, () -> write(JSON.parseObject(json, type)));
        }
    }

    private static Type type(String shape) {
        switch (shape) {
            case "pojo-12":
                return Order.class;
            case "pojos-100":
                return new TypeReference<List<Order>>() {}.getType();
            case "map-50":
                return new TypeReference<Map<String, Integer>>() {}.getType();
            default:
                return String.class;
        }
    }

    /** Into a buffer that is used again; its length. */
    private static Object write(Object value) throws IOException {
        BYTES.reset();
        OUT.reset();
        OUT.init(BYTES);
        OUT.writeObject(value);
        OUT.flush();
        return BYTES.size();
    }

    private static byte[] encode(Object value) throws IOException {
        write(value);
        return BYTES.toByteArray();
    }

    private static Object decode(byte[] bytes) throws IOException {
        IN.reset();
        IN.init(new ByteArrayInputStream(bytes));
        return IN.readObject();
    }

    private static void measure(String name, double seconds, double warmUp, Step step) throws IOException {
        batches(warmUp, step);
        double[] batches = batches(seconds, step);
        Arrays.sort(batches);
        System.out.println(String.format(Locale.ROOT, "{\"name\":\"%s\",\"ns\":%.1f,\"best_ns\":%.1f}",
                name, batches[batches.length / 2], batches[0]));
    }

    /** Nanoseconds a run, by batches. */
    private static double[] batches(double seconds, Step step) throws IOException {
        double[] batches = new double[1 << 16];
        int n = 0;
        long runs = 1;
        long end = System.nanoTime() + (long) (seconds * 1e9);
        while (n == 0 || System.nanoTime() < end) {
            long start = System.nanoTime();
            for (long i = 0; i < runs; i++) {
                sink = step.run();
            }
            long elapsed = System.nanoTime() - start;
            if (elapsed < BATCH_NS) {
                runs *= 2;
            } else if (n < batches.length) {
                batches[n++] = (double) elapsed / runs;
            }
        }
        return Arrays.copyOf(batches, n);
    }

    private Codec() {}
}
