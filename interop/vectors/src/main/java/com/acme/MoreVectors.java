package com.acme;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.URI;
import java.time.DayOfWeek;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.Year;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.Currency;
import java.util.Date;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.GregorianCalendar;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Hashtable;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.PriorityQueue;
import java.util.Properties;
import java.util.Set;
import java.util.Stack;
import java.util.TimeZone;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.Vector;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/** The rest of the table: collections of every kind, shared values, and the odd corners of the JDK. */
final class MoreVectors {
    static void fill(Map<String, Object> table) throws Exception {
        fillCollections(table);
        fillMaps(table);
        fillShared(table);
        fillObjects(table);
        fillTime(table);
        fillStrings(table);
    }

    private static void fillCollections(Map<String, Object> table) {
        List<String> abc = List.of("a", "b", "c");
        table.put("list-of-2", List.of("a", "b"));
        table.put("list-of-3", abc);
        table.put("list-as-list", Arrays.asList("a", "b", "c"));
        table.put("list-sub", new ArrayList<>(abc).subList(0, 2));
        table.put("list-singleton", Collections.singletonList("a"));
        table.put("list-empty-shared", Collections.emptyList());
        table.put("list-unmodifiable", Collections.unmodifiableList(new ArrayList<>(abc)));
        table.put("list-synchronized", Collections.synchronizedList(new ArrayList<>(abc)));
        table.put("list-copy-on-write", new CopyOnWriteArrayList<>(abc));
        table.put("list-300", new ArrayList<>(Collections.nCopies(300, 1)));
        Vector<String> vector = new Vector<>(abc);
        table.put("vector", vector);
        Stack<String> stack = new Stack<>();
        stack.addAll(abc);
        table.put("stack", stack);
        table.put("deque", new ArrayDeque<>(abc));
        table.put("queue-priority", new PriorityQueue<>(abc));
        table.put("set-hash", new HashSet<>(abc));
        table.put("set-tree", new TreeSet<>(abc));
        table.put("set-tree-reversed", reversed());
        table.put("set-of-3", Set.of("a", "b", "c"));
        table.put("set-singleton", Collections.singleton("a"));
        table.put("set-unmodifiable", Collections.unmodifiableSet(new HashSet<>(abc)));
        table.put("iterator", new ArrayList<>(abc).iterator());
        table.put("set-keys", new HashMap<>(Map.of("k", 1)).keySet());
        table.put("map-values", new HashMap<>(Map.of("k", 1)).values());
        table.put("list-mixed", new ArrayList<>(Arrays.asList(
            (byte) 1, (short) 2, 'c', 3, 4L, 5.5f, 6.5, true, "s", null, new BigDecimal("7.70"),
            new byte[] {8}, new Date(9), Color.RED, new int[] {10}, new Item("i", 11))));
        table.put("enum-set-empty", EnumSet.noneOf(Color.class));
        table.put("enum-of-java", TimeUnit.SECONDS);
        table.put("bit-set", BitSet.valueOf(new long[] {5}));
    }

    private static TreeSet<String> reversed() {
        TreeSet<String> set = new TreeSet<>(Collections.reverseOrder());
        set.addAll(List.of("a", "b"));
        return set;
    }

    private static void fillMaps(Map<String, Object> table) {
        table.put("map-of-1", Map.of("k", 1));
        table.put("map-of-2", Map.of("k", 1, "l", 2));
        table.put("map-singleton", Collections.singletonMap("k", 1));
        table.put("map-empty-shared", Collections.emptyMap());
        table.put("map-unmodifiable", Collections.unmodifiableMap(new HashMap<>(Map.of("k", 1))));
        table.put("map-concurrent", new ConcurrentHashMap<>(Map.of("k", 1)));
        table.put("map-skip-list", new ConcurrentSkipListMap<>(Map.of("k", 1)));
        table.put("hashtable", new Hashtable<>(Map.of("k", 1)));
        Properties properties = new Properties();
        properties.setProperty("k", "v");
        table.put("properties", properties);
        EnumMap<Color, Integer> colors = new EnumMap<>(Color.class);
        colors.put(Color.GREEN, 1);
        table.put("enum-map", colors);
        table.put("map-int-keys", new TreeMap<>(Map.of(1, "one", -2, "minus two")));
        Map<Object, Object> keys = new LinkedHashMap<>();
        keys.put(new Item("i", 1), "pojo");
        keys.put(new ArrayList<>(List.of(1, 2)), "list");
        keys.put(LocalDate.of(2024, 2, 29), "date");
        keys.put(UUID.fromString("123e4567-e89b-12d3-a456-426614174000"), "uuid");
        keys.put('c', "char");
        keys.put("", "empty");
        table.put("map-object-keys", keys);
    }

    private static void fillShared(Map<String, Object> table) {
        Item item = new Item("a", 1);
        List<Object> list = new ArrayList<>(List.of(item, item));
        List<Object> shared = new ArrayList<>();
        shared.add(list);
        shared.add(list);
        Map<Object, Object> map = new LinkedHashMap<>();
        map.put("item", item);
        map.put("list", list);
        shared.add(map);
        shared.add(map);
        table.put("shared-deep", shared);
        int[] ints = {1, 2};
        table.put("shared-array", new ArrayList<>(List.of(ints, ints)));
        Date date = new Date(60_000);
        BigDecimal decimal = new BigDecimal("1.50");
        LocalDate day = LocalDate.of(2024, 2, 29);
        table.put("shared-scalars", new ArrayList<>(List.of(date, date, decimal, decimal, Color.RED, Color.RED, day, day)));
        Node first = new Node();
        Node second = new Node();
        first.label = "first";
        second.label = "second";
        first.next = second;
        second.next = first;
        table.put("cycle-2", first);
        List<Object> self = new ArrayList<>();
        self.add(1);
        self.add(self);
        table.put("cycle-list", self);
        Map<Object, Object> around = new HashMap<>();
        around.put("self", around);
        table.put("cycle-map", around);
        Order parent = new Order();
        parent.name = "parent";
        parent.items = new ArrayList<>(List.of(item));
        parent.extra = new HashMap<>();
        parent.extra.put("items", parent.items);
        parent.next = parent;
        table.put("cycle-pojo", parent);
    }

    private static void fillObjects(Map<String, Object> table) throws Exception {
        table.put("wide", new Wide());
        table.put("byte", (byte) -5);
        table.put("short", (short) 300);
        table.put("char", 'c');
        table.put("string-builder", new StringBuilder("text"));
        table.put("object", new Object());
        table.put("optional", Optional.of("x"));
        table.put("optional-empty", Optional.empty());
        table.put("atomic-integer", new AtomicInteger(7));
        table.put("atomic-long", new AtomicLong(1L << 40));
        table.put("atomic-boolean", new AtomicBoolean(true));
        table.put("currency", Currency.getInstance("CNY"));
        table.put("uri", URI.create("http://acme.com/a?b=c"));
        table.put("inet-address", InetAddress.getByAddress("localhost", new byte[] {127, 0, 0, 1}));
        table.put("file", new java.io.File("/tmp/x"));
        table.put("locale-root", Locale.ENGLISH);
        table.put("class-array", new Class<?>[] {int.class, int[].class, String[].class, Item.class});
        table.put("sql-time", new java.sql.Time(3_600_000));
        table.put("sql-timestamp-nanos", java.sql.Timestamp.valueOf("2024-02-29 13:05:59.123456789"));
        GregorianCalendar calendar = new GregorianCalendar(TimeZone.getTimeZone("UTC"));
        calendar.setTimeInMillis(1_700_000_000_123L);
        table.put("calendar", calendar);
        table.put("stack-trace-element", new StackTraceElement("com.acme.Shop", "sell", "Shop.java", 12));
        table.put("big-integer-negative-word", new BigInteger("-ffffffff00000000", 16));
        table.put("big-decimal-exponent", new BigDecimal("-1.23E-10"));
        table.put("big-decimals", new BigDecimal[] {new BigDecimal("1"), new BigDecimal("0E+7")});
        ShopException error = new ShopException("closed", new ArithmeticException(), 7, new Item("a", 1));
        error.setStackTrace(new StackTraceElement[0]);
        error.getCause().setStackTrace(new StackTraceElement[0]);
        error.addSuppressed(error.getCause());
        table.put("throwable-own", error);
        StackOverflowError plain = new StackOverflowError();
        plain.setStackTrace(new StackTraceElement[] {new StackTraceElement("a.B", "c", "B.java", 1)});
        table.put("throwable-error", plain);
    }

    private static void fillTime(Map<String, Object> table) {
        LocalDateTime time = LocalDateTime.of(2024, 2, 29, 0, 0, 0, 1);
        table.put("local-date-far", LocalDate.of(-44, 3, 15));
        table.put("local-date-max", LocalDate.MAX);
        table.put("local-time-midnight", LocalTime.MIDNIGHT);
        table.put("local-date-time-nanos", time);
        table.put("zoned-utc", ZonedDateTime.of(time, ZoneOffset.UTC));
        table.put("zoned-gap", ZonedDateTime.of(2024, 10, 27, 2, 30, 0, 0, ZoneId.of("Europe/Berlin")).withLaterOffsetAtOverlap());
        table.put("offset-date-times", new ArrayList<>(List.of(
            OffsetDateTime.of(time, ZoneOffset.UTC), OffsetDateTime.of(time, ZoneOffset.ofHoursMinutesSeconds(-1, -2, -3)))));
        table.put("year-negative", Year.of(-44));
        table.put("day-of-week", DayOfWeek.MONDAY);
        table.put("dates-far", new Date[] {new Date(-62_135_596_800_000L), new Date(253_402_300_799_999L), new Date(-1)});
    }

    private static void fillStrings(Map<String, Object> table) {
        String pair = "\ud83d\ude00";
        table.put("string-emoji-31", "x".repeat(29) + pair);
        table.put("string-emoji-32", "x".repeat(30) + pair);
        table.put("string-emoji-1023", "x".repeat(1021) + pair);
        table.put("string-emoji-32768", "x".repeat(32766) + pair);
        table.put("string-emoji-32769", "x".repeat(32767) + pair);
        table.put("string-chunks-3", "\u00e9".repeat(70_000));
        table.put("string-swapped-surrogates", "\ude00\ud83d");
        table.put("string-max-char", "\uffff\ufffe\ufeff\ue000");
        table.put("string-numeric", "\u0000\u0001\u001f\u007f\u0080\u07ff\u0800");
        byte[] binary = new byte[100_000];
        for (int i = 0; i < binary.length; i++) {
            binary[i] = (byte) (i * 31);
        }
        table.put("binary-100000", binary);
    }

    private MoreVectors() {}
}
