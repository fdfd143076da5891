package com.acme;

import java.io.ByteArrayInputStream;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URL;
import java.net.UnixDomainSocketAddress;
import java.time.DayOfWeek;
import java.time.LocalDate;
import java.time.LocalTime;
import java.time.Month;
import java.time.OffsetTime;
import java.time.ZoneId;
import java.time.chrono.HijrahDate;
import java.time.chrono.IsoChronology;
import java.time.chrono.JapaneseDate;
import java.time.chrono.JapaneseEra;
import java.time.chrono.MinguoChronology;
import java.time.chrono.MinguoDate;
import java.time.chrono.ThaiBuddhistDate;
import java.time.temporal.ValueRange;
import java.time.temporal.WeekFields;
import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.WeakHashMap;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CopyOnWriteArraySet;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.PriorityBlockingQueue;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import java.util.regex.Pattern;
import javax.management.ObjectName;

/** What is rarely sent: the other collections, arrays and handles, and classes of odd shapes. */
final class OddVectors {
    /** A list with a field of its own, which hessian-lite does not write. */
    public static class Names extends ArrayList<String> {
        String label = "names";
    }

    /** The same as a map. */
    public static class Prices extends TreeMap<String, BigDecimal> {
        String currency = "CNY";
    }

    /** A class of one field that looks like an enum. */
    public static class Named implements Serializable {
        String name = "RED";
    }

    /** No fields at all. */
    public static class Empty implements Serializable {}

    /** A field that a subclass hides. */
    public static class Base implements Serializable {
        String name = "base";
        int number = 1;
    }

    /** Both have a {@code name}. */
    public static class Hiding extends Base {
        String name = "hiding";
        transient String dropped = "dropped";
        static String shared = "shared";
    }

    /** What hessian-lite 4 has a form for. */
    public record Point(int x, String label, List<Integer> more) implements Serializable {}

    /** Itself, by another object. */
    public static class Replaced implements Serializable {
        Object writeReplace() {
            return new Item("replaced", 1);
        }
    }

    /** Fields of the boxes and of Object. */
    public static class Boxes implements Serializable {
        Byte aByte = 1;
        Short aShort = 2;
        Integer anInt = 3;
        Long aLong = 4L;
        Float aFloat = 5.1f;
        Double aDouble = 6.1;
        Character aChar = '7';
        Boolean aBoolean = true;
        Number number = 8L;
        Object object = new int[] {9};
        Iterable<String> texts = new ArrayList<>(List.of("a"));
        Integer none = null;
        StringBuilder builder = null;
        Class<?> type = Item.class;
        Thread.State state = Thread.State.NEW;
    }

    static void fill(Map<String, Object> table) throws Exception {
        fillCollections(table);
        fillMaps(table);
        fillArrays(table);
        fillTime(table);
        fillNet(table);
        fillObjects(table);
        fillNumbers(table);
    }

    private static void fillCollections(Map<String, Object> table) {
        List<String> abc = List.of("a", "b", "c");
        table.put("queue-linked-blocking", new LinkedBlockingQueue<>(abc));
        table.put("queue-array-blocking", new ArrayBlockingQueue<>(3, false, abc));
        table.put("queue-priority-blocking", new PriorityBlockingQueue<>(abc));
        table.put("queue-concurrent", new ConcurrentLinkedQueue<>(abc));
        table.put("deque-blocking", new LinkedBlockingDeque<>(abc));
        table.put("deque-concurrent", new ConcurrentLinkedDeque<>(abc));
        table.put("set-copy-on-write", new CopyOnWriteArraySet<>(abc));
        table.put("set-skip-list", new ConcurrentSkipListSet<>(abc));
        table.put("set-concurrent", keySet());
        table.put("set-from-map", fromMap());
        table.put("list-copies", Collections.nCopies(3, "a"));
        table.put("list-of-sub", List.of("a", "b", "c", "d").subList(0, 3));
        table.put("list-checked", Collections.checkedList(new ArrayList<>(abc), String.class));
        table.put("list-to-list", abc.stream().map(text -> text).toList());
        table.put("collection-unmodifiable", Collections.unmodifiableCollection(new ArrayList<>(abc)));
        table.put("list-own-class", names());
        table.put("enumeration", Collections.enumeration(new ArrayList<>(abc)));
        table.put("list-of-nulls", new ArrayList<>(Arrays.asList(null, null)));
        table.put("list-nested", nested(31));
        table.put("enum-set-all", EnumSet.allOf(Thread.State.class));
        table.put("enum-list", new ArrayList<>(List.of(Color.GREEN, Color.RED, Color.GREEN, DayOfWeek.MONDAY)));
    }

    private static Object keySet() {
        ConcurrentHashMap.KeySetView<String, Boolean> set = ConcurrentHashMap.newKeySet();
        set.add("k");
        return set;
    }

    private static Object fromMap() {
        Set<String> set = Collections.newSetFromMap(new HashMap<>());
        set.add("k");
        return set;
    }

    private static Names names() {
        Names names = new Names();
        names.add("a");
        return names;
    }

    private static Object nested(int levels) {
        Object inner = "deep";
        for (int level = 0; level < levels; level++) {
            inner = new ArrayList<>(List.of(new HashMap<>(Map.of("k", inner))));
        }
        return inner;
    }

    private static void fillMaps(Map<String, Object> table) {
        table.put("map-synchronized", Collections.synchronizedMap(new HashMap<>(Map.of("k", 1))));
        table.put("map-weak", new WeakHashMap<>(Map.of("k", 1)));
        table.put("map-identity", new IdentityHashMap<>(Map.of("k", 1)));
        table.put("map-tree-reversed", reversed());
        table.put("map-own-class", prices());
        Map<Object, Object> nulls = new LinkedHashMap<>();
        nulls.put(null, null);
        nulls.put("null", "text");
        table.put("map-nulls", nulls);
        Map<Object, Object> same = new LinkedHashMap<>();
        same.put(1, "int");
        same.put("1", "text");
        same.put(1L, "long");
        table.put("map-same-keys", same);
        Map<Object, Object> odd = new LinkedHashMap<>();
        odd.put(1.5f, "float");
        odd.put(Double.NaN, "nan");
        odd.put(new BigInteger("12345678901234567890"), "integer");
        odd.put(Item.class, "class");
        odd.put(LocalTime.of(1, 2), "time");
        odd.put(Locale.CHINA, "locale");
        odd.put(new ArrayList<>(List.of(new HashMap<>(Map.of("a\"b", 'c')))), "nested");
        odd.put("class", "a key that is class");
        odd.put("$ref", "$");
        odd.put("\u0000\ud83d\ude00\"\\", "escapes");
        table.put("map-odd-keys", odd);
        table.put("entry", new AbstractMap.SimpleEntry<>("k", 1));
        table.put("entry-immutable", new AbstractMap.SimpleImmutableEntry<>("k", 1));
        EnumMap<DayOfWeek, Object> days = new EnumMap<>(DayOfWeek.class);
        days.put(DayOfWeek.SUNDAY, new ArrayList<>(List.of(1)));
        table.put("enum-map-of-java", days);
    }

    private static Map<String, Integer> reversed() {
        Map<String, Integer> map = new TreeMap<>(Collections.reverseOrder());
        map.putAll(Map.of("a", 1, "b", 2));
        return map;
    }

    private static Prices prices() {
        Prices prices = new Prices();
        prices.put("a", new BigDecimal("1.50"));
        return prices;
    }

    private static void fillArrays(Map<String, Object> table) {
        table.put("array-empty-ints", new int[0]);
        table.put("array-empty-objects", new Object[0]);
        table.put("array-empty-pojos", new Item[0]);
        table.put("array-bytes", new Byte[] {1, null, -1});
        table.put("array-shorts", new Short[] {1, null});
        table.put("array-integers", new Integer[] {1, null});
        table.put("array-longs", new Long[] {1L, null, 9007199254740993L});
        table.put("array-floats", new Float[] {99.8f, null});
        table.put("array-doubles", new Double[] {99.8, null});
        table.put("array-booleans", new Boolean[] {true, null});
        table.put("array-characters", new Character[] {'a', null});
        table.put("array-uuids", new UUID[] {new UUID(1, 2), null});
        table.put("array-days", new LocalDate[] {LocalDate.of(2024, 2, 29), null});
        table.put("array-big-integers", new BigInteger[] {BigInteger.TEN, null});
        table.put("array-sql-dates", new java.sql.Timestamp[] {new java.sql.Timestamp(1), null});
        table.put("array-lists", new List<?>[] {new ArrayList<>(List.of(1)), null});
        table.put("array-maps", new Map<?, ?>[] {new HashMap<>(Map.of("k", 1)), null});
        table.put("array-enum-body", new Color[][] {{Color.GREEN}, {}});
        table.put("array-texts-2d", new String[][] {{"a"}, null, {}});
        table.put("array-bytes-2d", new byte[][] {{1, 2}, {}});
        table.put("array-chars-2d", new char[][] {{'a', 'b'}, {}});
        table.put("array-floats-2d", new float[][] {{99.8f}, {}});
        table.put("array-objects-2d", new Object[][] {{1, "a"}, {null}});
        table.put("array-pojos-2d", new Item[][] {{new Item("a", 1)}, {}});
        table.put("array-longs-3d", new long[][][] {{{1L << 40}, {}}, {}});
        table.put("array-numbers", new Number[] {1, 2L, 3.5f, 4.5, new BigDecimal("5.50")});
    }

    private static void fillTime(Map<String, Object> table) {
        LocalDate day = LocalDate.of(2024, 2, 29);
        table.put("chrono-hijrah", HijrahDate.from(day));
        table.put("chrono-japanese", JapaneseDate.from(day));
        table.put("chrono-japanese-era", JapaneseEra.HEISEI);
        table.put("chrono-minguo", MinguoDate.from(day));
        table.put("chrono-thai", ThaiBuddhistDate.from(day));
        table.put("chrono-date-time", MinguoDate.from(day).atTime(LocalTime.of(1, 2)));
        table.put("chrono-zoned", MinguoDate.from(day).atTime(LocalTime.of(1, 2)).atZone(ZoneId.of("Asia/Taipei")));
        table.put("chrono-period", MinguoChronology.INSTANCE.period(1, 2, 3));
        table.put("chrono-iso", IsoChronology.INSTANCE);
        table.put("week-fields", WeekFields.ISO);
        table.put("value-range", ValueRange.of(1, 7));
        table.put("zone-id-utc", ZoneId.of("UTC"));
        table.put("zone-id-offset", ZoneId.of("GMT+08:30"));
        table.put("month", Month.MAY);
        table.put("offset-time-max", OffsetTime.MAX);
    }

    private static void fillNet(Map<String, Object> table) throws Exception {
        byte[] six = new byte[16];
        six[15] = 1;
        table.put("inet-address-6", InetAddress.getByAddress("localhost", six));
        table.put("inet-socket-address",
                new InetSocketAddress(InetAddress.getByAddress("localhost", new byte[] {127, 0, 0, 1}), 80));
        table.put("unix-socket-address", UnixDomainSocketAddress.of("/tmp/x"));
        table.put("url", new URL("http://acme.com/a?b=c"));
        table.put("object-name", new ObjectName("com.acme:type=Shop"));
    }

    private static void fillObjects(Map<String, Object> table) {
        table.put("named", new Named());
        table.put("empty", new Empty());
        table.put("hiding", new Hiding());
        table.put("shadowed-field", new Ticket.Child(7, "super", "sub", 3));
        table.put("shadowed-exception", new Ticket.Refused("super", 42, "own"));
        table.put("shadowed-exception-null", new Ticket.Refused(null, 42, "own"));
        table.put("shadowed-exception-own-null", new Ticket.Refused("super", 42, null));
        table.put("record", new Point(1, "a", new ArrayList<>(List.of(2))));
        table.put("replaced", new Replaced());
        table.put("boxes", new Boxes());
        table.put("input-stream", new ByteArrayInputStream(new byte[] {1, 2, 3}));
        table.put("pattern", Pattern.compile("a+"));
        table.put("string-buffer", new StringBuffer("text"));
        table.put("locale-script", Locale.forLanguageTag("zh-Hans-CN"));
        table.put("locale-empty", Locale.ROOT);
        table.put("optional-int", OptionalInt.of(7));
        table.put("optional-pojo", Optional.of(new Item("a", 1)));
        table.put("atomic-reference", new AtomicReference<>("x"));
        table.put("atomic-int-array", new AtomicIntegerArray(new int[] {1, 2}));
        table.put("atomic-long-array", new AtomicLongArray(new long[] {1, 2}));
        LongAdder adder = new LongAdder();
        adder.add(7);
        table.put("long-adder", adder);
        table.put("throwable-causes",
                bare(new RuntimeException("a", bare(new RuntimeException("b", bare(new Error("c")))))));
        table.put("sql-exception", bare(new java.sql.SQLException("reason", "42000", 7)));
        table.put("invocation-target", bare(new java.lang.reflect.InvocationTargetException(bare(new Error("inner")), "outer")));
    }

    private static <T extends Throwable> T bare(T error) {
        error.setStackTrace(new StackTraceElement[0]);
        return error;
    }

    private static void fillNumbers(Map<String, Object> table) {
        table.put("big-decimal-zeros", new BigDecimal("0.00"));
        table.put("big-decimal-tiny", new BigDecimal("1E-400"));
        table.put("big-integer-long", BigInteger.valueOf(Long.MIN_VALUE));
        table.put("big-integer-2-64", BigInteger.ONE.shiftLeft(64));
        table.put("double-negative-zero", new ArrayList<>(List.of(-0.0, -0.0f)));
        table.put("double-borders", new double[] {Integer.MAX_VALUE, 2147483.647, -2147483.649, 0.0005, 1e21, 1e-7,
            9007199254740993.0, Double.MIN_NORMAL, 123456789012345680.0});
        table.put("float-borders", new float[] {Float.MIN_VALUE, Float.MAX_VALUE, Float.NaN, Float.NEGATIVE_INFINITY, 16777217f});
        table.put("char-borders", new char[] {0, 0x7f, 0x80, 0x7ff, 0x800, 0xd800, 0xdfff, 0xffff});
        table.put("char-surrogate", '\ud83d');
    }

    private OddVectors() {}
}
