package com.acme;

import com.alibaba.com.caucho.hessian.io.Hessian2Input;
import com.alibaba.com.caucho.hessian.io.Hessian2Output;
import com.alibaba.com.caucho.hessian.io.SerializerFactory;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.MonthDay;
import java.time.OffsetDateTime;
import java.time.OffsetTime;
import java.time.Period;
import java.time.Year;
import java.time.YearMonth;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;

/**
 * {@code write DIR [NAMES]}: one file for each value of the table whose name matches. {@code refs DIR}: one
 * file for all, see {@link #refs}. {@code check DIR}: every file of DIR is read, and has to be the value
 * that the table has for its name.
 */
public final class Vectors {
    private static final Map<String, Object> TABLE = new LinkedHashMap<>();
    private static final Pattern NOT_SERIALIZABLE = Pattern.compile("java\\.util\\.Optional.*|java.time.chrono.JapaneseEra");
    /** Java itself reads these otherwise where nothing tells it the type. */
    private static final Set<String> NEED_TYPE = Set.of("chars", "float", "pojo");

    public static void main(String[] args) throws Exception {
        fill();
        Path dir = Path.of(args[1]);
        if (args[0].equals("refs")) {
            Map<String, byte[]> all = refs(TABLE, Vectors::write);
            checkRefs(all);
            Files.write(dir.resolve("refs.bin"), write(all));
        } else if (args[0].equals("write")) {
            Files.createDirectories(dir);
            int written = 0;
            for (Map.Entry<String, Object> entry : TABLE.entrySet()) {
                if (2 < args.length && !entry.getKey().matches(args[2])) {
                    continue;
                }
                try {
                    Files.write(dir.resolve(entry.getKey() + ".bin"), write(entry.getValue()));
                    written++;
                } catch (Exception | StackOverflowError e) {
                    System.out.println("CANNOT WRITE " + entry.getKey() + ": " + e);
                }
            }
            System.out.println(written + " of " + TABLE.size() + " vectors written");
        } else {
            check(dir);
        }
    }

    /** What writes a value in one serialization. */
    interface Writer {
        byte[] write(Object value) throws Exception;
    }

    /**
     * Each value by its name, as a message that holds it twice, and then a map twice, so that a reader who
     * counts references in another way gets something else. Values whose message is long are left out.
     */
    static Map<String, byte[]> refs(Map<String, Object> table, Writer writer) {
        Map<String, byte[]> all = new LinkedHashMap<>();
        for (Map.Entry<String, Object> entry : table.entrySet()) {
            Object value = entry.getValue();
            Map<String, Integer> shared = new HashMap<>(Map.of("shared", 1));
            try {
                byte[] bytes = writer.write(new ArrayList<>(Arrays.asList(value, value, shared, shared)));
                if (bytes.length < 2000) {
                    all.put(entry.getKey(), bytes);
                }
            } catch (Throwable e) {
                System.out.println("CANNOT WRITE " + entry.getKey() + ": " + e);
            }
        }
        return all;
    }

    /** Says which of these messages Java itself does not read as they were written. */
    private static void checkRefs(Map<String, byte[]> all) {
        for (Map.Entry<String, byte[]> entry : all.entrySet()) {
            try {
                Object read = input(entry.getValue()).readObject();
                if (!Map.of("shared", 1).equals(((List<?>) read).get(3))) {
                    System.out.println("JAVA ITSELF MISREADS " + entry.getKey() + ": " + text(read));
                }
            } catch (Throwable e) {
                System.out.println("CANNOT READ " + entry.getKey() + ": " + e);
            }
        }
    }

    private static void check(Path dir) throws Exception {
        int bad = 0;
        int checked = 0;
        List<Path> files = new ArrayList<>();
        try (var all = Files.list(dir)) {
            all.sorted().forEach(files::add);
        }
        for (Path file : files) {
            // NAME.bin or NAME@how-it-was-made.bin
            String name = file.getFileName().toString().replaceAll("(@.*)?\\.bin$", "");
            String made = file.getFileName().toString().replaceAll("^[^@]*@?|\\.bin$", "");
            // What a version of Java wrote and we wrote again is compared with what it wrote.
            Path vector = Path.of("../../crates/hessian/vectors", made, name + ".bin");
            byte[] own = Files.exists(vector) ? Files.readAllBytes(vector) : write(TABLE.get(name));
            String problem = problem(name, own, Files.readAllBytes(file));
            checked++;
            if (problem != null) {
                bad++;
                System.out.println("BAD " + file.getFileName() + ": " + problem);
            }
        }
        System.out.println(checked + " files checked, " + bad + " bad");
        System.exit(bad == 0 && checked > 0 ? 0 : 1);
    }

    /** What is wrong with bytes that should be the value of this name. */
    private static String problem(String name, byte[] javas, byte[] bytes) {
        Object expected = TABLE.get(name);
        Class<?> type = expected == null || expected instanceof Enum ? Object.class : expected.getClass();
        try {
            String directed = difference(expected, type, javas, bytes);
            String plain = NEED_TYPE.contains(name) ? null : difference(expected, Object.class, javas, bytes);
            return directed != null ? "directed: " + directed : plain;
        } catch (Exception e) {
            return e.toString();
        }
    }

    /**
     * Whether Java reads the value, or at least what it reads from its own bytes of it: not every
     * value comes back as it was, and some have no equals. Those are compared by their bytes.
     */
    private static String difference(Object expected, Class<?> type, byte[] javas, byte[] bytes) throws Exception {
        String ownError = null;
        byte[] own = null;
        try {
            own = write(input(javas).readObject(type));
        } catch (Exception e) {
            ownError = e.toString();
        }
        Object read;
        try {
            read = input(bytes).readObject(type);
            if (own != null && Arrays.equals(own, write(read))) {
                return null;
            }
        } catch (Exception e) {
            return e.toString().equals(ownError) ? null : "Java's own: " + ownError + ", ours: " + e;
        }
        return same(expected, read) ? null : text(read) + ", expected " + text(expected);
    }

    static boolean same(Object a, Object b) {
        if (a instanceof Throwable && b instanceof Throwable) {
            return a.getClass() == b.getClass()
                    && String.valueOf(((Throwable) a).getMessage()).equals(((Throwable) b).getMessage());
        }
        // These have no equals of their own.
        boolean isByText = a instanceof Queue || a instanceof Number || a instanceof AtomicBoolean;
        if (isByText && b != null && a.getClass() == b.getClass()) {
            return a.toString().equals(b.toString());
        }
        try {
            return Arrays.deepEquals(new Object[] {a}, new Object[] {b});
        } catch (StackOverflowError e) {
            return false;
        }
    }

    static String text(Object value) {
        try {
            return Arrays.deepToString(new Object[] {value})
                    + (value == null ? "" : " of " + value.getClass());
        } catch (StackOverflowError e) {
            return "a cycle of " + value.getClass();
        }
    }

    private static byte[] write(Object value) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        Hessian2Output out = new Hessian2Output(bytes);
        SerializerFactory factory = new SerializerFactory();
        // Some are not; Dubbo leaves it to the application whether that is an error.
        factory.setAllowNonSerializable(NOT_SERIALIZABLE.matcher(value == null ? "" : value.getClass().getName()).matches());
        out.setSerializerFactory(factory);
        out.writeObject(value);
        out.flush();
        return bytes.toByteArray();
    }

    private static Hessian2Input input(byte[] bytes) {
        Hessian2Input in = new Hessian2Input(new ByteArrayInputStream(bytes));
        in.setSerializerFactory(new SerializerFactory());
        return in;
    }

    /** The values by their names, for the programs of other serializations. */
    static Map<String, Object> table() throws Exception {
        fill();
        return TABLE;
    }

    private static void fill() throws Exception {
        fillPrimitives();
        fillTexts();
        fillContainers();
        fillObjects();
        fillTime();
        MoreVectors.fill(TABLE);
        OddVectors.fill(TABLE);
    }

    private static void fillPrimitives() {
        TABLE.put("null", null);
        TABLE.put("true", true);
        TABLE.put("false", false);
        int[] ints = {0, -16, 47, -17, 48, -2048, 2047, -2049, 2048, -262144, 262143, -262145, 262144,
            Integer.MIN_VALUE, Integer.MAX_VALUE};
        TABLE.put("ints", ints);
        long[] longs = {0, -8, 15, -9, 16, -2048, 2047, -2049, 2048, -262144, 262143, -262145, 262144,
            Integer.MIN_VALUE, Integer.MAX_VALUE, Integer.MIN_VALUE - 1L, Integer.MAX_VALUE + 1L,
            9007199254740993L, Long.MIN_VALUE, Long.MAX_VALUE};
        TABLE.put("longs", longs);
        double[] doubles = {0, 1, -128, 127, -129, 128, -32768, 32767, 32768, 12.25, 99.8, 0.001, 1e300,
            5e-324, Math.PI, -2147483.648, Double.MAX_VALUE, Double.NaN, Double.POSITIVE_INFINITY,
            Double.NEGATIVE_INFINITY};
        TABLE.put("doubles", doubles);
        TABLE.put("floats", new float[] {99.8f, 0.1f, 3.4028235e38f, 1.5f});
        TABLE.put("float", 99.8f);
        TABLE.put("shorts", new short[] {-1, 300});
        TABLE.put("booleans", new boolean[] {true, false});
        TABLE.put("chars", new char[] {'a', '\u4e2d'});
        TABLE.put("dates", new Date[] {new Date(0), new Date(60000), new Date(-60000), new Date(1),
            new Date(1700000000123L), new Date(Long.MAX_VALUE)});
        TABLE.put("date-minute", new Date(1700000040000L));
        TABLE.put("date-milli", new Date(1700000040123L));
    }

    private static void fillTexts() {
        TABLE.put("string-empty", "");
        TABLE.put("string-31", "0123456789012345678901234567890");
        TABLE.put("string-32", "01234567890123456789012345678901");
        TABLE.put("string-1023", "x".repeat(1023));
        TABLE.put("string-1024", "x".repeat(1024));
        TABLE.put("string-32768", "y".repeat(32768));
        TABLE.put("string-32769", "y".repeat(32769));
        TABLE.put("string-chunks", "z".repeat(33000));
        TABLE.put("string-chinese", "\u4e2d\u6587\u5b57\u7b26".repeat(8250));
        TABLE.put("string-mixed", "\u00e9\u4e2d\ud83d\ude00 \"\\\n\t\u0001\u007f\u0000");
        // The pair of surrogates falls onto the end of the first chunk.
        TABLE.put("string-emoji-at-chunk", "a".repeat(32767) + "\ud83d\ude00" + "b".repeat(100));
        TABLE.put("string-emojis", "\ud83d\ude00".repeat(16500));
        TABLE.put("string-lone-surrogate", "a\ud83d!");
        TABLE.put("binary-0", new byte[0]);
        TABLE.put("binary-15", bytes(15));
        TABLE.put("binary-16", bytes(16));
        TABLE.put("binary-1023", bytes(1023));
        TABLE.put("binary-1024", bytes(1024));
        TABLE.put("binary-chunks", bytes(33000));
    }

    private static void fillContainers() {
        TABLE.put("list-empty", new ArrayList<>());
        TABLE.put("list-7", new ArrayList<>(List.of(1, 2, 3, 4, 5, 6, 7)));
        TABLE.put("list-8", new ArrayList<>(List.of(1, 2, 3, 4, 5, 6, 7, 8)));
        TABLE.put("list-linked", new LinkedList<>(List.of("a", "b")));
        TABLE.put("set-linked", new LinkedHashSet<>(List.of("a", "b")));
        List<Object> nested = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            nested.add(new LinkedList<>(List.of(i)));
        }
        TABLE.put("list-type-refs", nested);
        TABLE.put("strings", new String[] {"a", null, "b"});
        TABLE.put("objects", new Object[] {"a", 1, null, 2L, 1.5});
        TABLE.put("ints-2d", new int[][] {{1}, {2, 3}});
        TABLE.put("integers", new Integer[] {1, 2});
        TABLE.put("map-empty", new HashMap<>());
        Map<Object, Object> map = new LinkedHashMap<>();
        map.put("s", "text");
        map.put("i", 1);
        map.put("n", null);
        map.put("l", new ArrayList<>(List.of(1L, 2L)));
        TABLE.put("map-linked", map);
        Map<Object, Object> keys = new LinkedHashMap<>();
        keys.put(1, "int");
        keys.put(2L, "long");
        keys.put(1.5, "double");
        keys.put(true, "boolean");
        keys.put(Color.RED, "enum");
        keys.put(null, "null");
        keys.put(new Date(0), "date");
        keys.put(new BigDecimal("1.50"), "decimal");
        TABLE.put("map-keys", keys);
        TABLE.put("map-tree", new TreeMap<>(Map.of("a", 1, "b", 2)));
        Map<Object, Object> single = new HashMap<>();
        single.put("k", "v");
        TABLE.put("map-hash", single);
        List<Object> shared = new ArrayList<>();
        shared.add(single);
        shared.add(single);
        TABLE.put("shared", shared);
    }

    private static void fillObjects() {
        Order order = new Order();
        order.id = 7;
        order.total = 9007199254740993L;
        order.small = 3;
        order.tiny = -4;
        order.letter = 'x';
        order.paid = true;
        order.price = 12.5;
        order.weight = 99.8f;
        order.name = "caf\u00e9";
        order.at = new Date(1700000000123L);
        order.amount = new BigDecimal("1234567890.12345678901234567890");
        order.color = Color.GREEN;
        order.raw = new byte[] {1, 2, 3};
        order.items = new ArrayList<>(List.of(new Item("a", 1), new Item("b", 2)));
        order.extra = new HashMap<>();
        order.extra.put("k", 1L);
        TABLE.put("pojo", order);
        List<Item> items = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            items.add(new Item("sku" + i, i));
        }
        TABLE.put("pojo-list", items);
        TABLE.put("pojo-array", new Item[] {new Item("a", 1), null});
        Node node = new Node();
        node.label = "self";
        node.next = node;
        TABLE.put("cycle", node);
        TABLE.put("enum", Color.RED);
        TABLE.put("enum-body", Color.GREEN);
        TABLE.put("enums", new Color[] {Color.RED, Color.GREEN, Color.RED});
        TABLE.put("enum-set", EnumSet.of(Color.RED, Color.GREEN));
        TABLE.put("big-decimal", new BigDecimal("1E+3"));
        TABLE.put("big-decimal-long", new BigDecimal("-0.1234567890123456789012345678901234567890"));
        TABLE.put("big-integer", new BigInteger("-123456789012345678901234567890"));
        TABLE.put("big-integer-zero", BigInteger.ZERO);
        TABLE.put("uuid", UUID.fromString("123e4567-e89b-12d3-a456-426614174000"));
        TABLE.put("locale", Locale.forLanguageTag("zh-CN"));
        TABLE.put("class", String.class);
        TABLE.put("sql-date", new java.sql.Date(1700000000000L));
        TABLE.put("sql-timestamp", new java.sql.Timestamp(1700000000123L));
        Exception cause = new IllegalStateException("the cause");
        cause.setStackTrace(new StackTraceElement[0]);
        Exception error = new IllegalArgumentException("wrong \"thing\"", cause);
        error.setStackTrace(new StackTraceElement[] {
            new StackTraceElement("com.acme.Shop", "sell", "Shop.java", 12),
            new StackTraceElement("com.acme.Shop", "main", null, -1),
            new StackTraceElement("com.acme.Shop", "run", "Shop.java", -2),
        });
        TABLE.put("throwable", error);
    }

    private static void fillTime() {
        LocalDate date = LocalDate.of(2024, 2, 29);
        LocalTime time = LocalTime.of(13, 5, 59, 120_000_000);
        TABLE.put("local-date", date);
        TABLE.put("local-time", time);
        TABLE.put("local-time-short", LocalTime.of(13, 5));
        TABLE.put("local-date-time", LocalDateTime.of(date, time));
        TABLE.put("instant", Instant.ofEpochSecond(1700000000, 123_456_789));
        TABLE.put("duration", Duration.ofSeconds(3725, 500_000_000));
        TABLE.put("duration-negative", Duration.ofMillis(-1500));
        TABLE.put("duration-zero", Duration.ZERO);
        TABLE.put("period", Period.of(1, -2, 30));
        TABLE.put("year", Year.of(2024));
        TABLE.put("year-month", YearMonth.of(2024, 2));
        TABLE.put("month-day", MonthDay.of(2, 29));
        TABLE.put("zone-offset", ZoneOffset.ofHoursMinutes(5, 30));
        TABLE.put("zone-id", ZoneId.of("Asia/Shanghai"));
        TABLE.put("offset-time", OffsetTime.of(time, ZoneOffset.ofHours(8)));
        TABLE.put("offset-date-time", OffsetDateTime.of(date, time, ZoneOffset.ofHours(-3)));
        TABLE.put("zoned-date-time", ZonedDateTime.of(date, time, ZoneId.of("Asia/Shanghai")));
        TABLE.put("local-dates", new ArrayList<>(List.of(date, date.plusDays(1))));
    }

    private static byte[] bytes(int length) {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) {
            bytes[i] = (byte) i;
        }
        return bytes;
    }

    private Vectors() {}
}
