package org.dubmesh.interop.peer;

import com.alibaba.dubbo.performance.demo.provider.IHelloService;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.sql.Timestamp;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.dubbo.common.Version;
import org.apache.dubbo.common.beanutil.JavaBeanDescriptor;
import org.apache.dubbo.common.beanutil.JavaBeanSerializeUtil;
import org.apache.dubbo.rpc.RpcContext;
import org.apache.dubbo.rpc.RpcException;
import org.apache.dubbo.rpc.service.EchoService;
import org.apache.dubbo.rpc.service.GenericService;
import org.dubmesh.interop.Address;
import org.dubmesh.interop.BusinessException;
import org.dubmesh.interop.Color;
import org.dubmesh.interop.Level;
import org.dubmesh.interop.MissingService;
import org.dubmesh.interop.OfficeAddress;
import org.dubmesh.interop.OutOfStockException;
import org.dubmesh.interop.Person;
import org.dubmesh.interop.TypesService;
import org.dubmesh.interop.UserService;

/** The calls that a consumer can make, each with its expected result, by name and in order. */
final class Calls {
    /** One call and what it must return. */
    static final class Call {
        final Callable<Object> make;
        final Object expected;
        private final Predicate<Object> accepts;

        Call(Callable<Object> make, Object expected, Predicate<Object> accepts) {
            this.make = make;
            this.expected = expected;
            this.accepts = accepts;
        }

        boolean accepts(Object result) {
            return accepts.test(result);
        }
    }

    private static final String UNICODE = "gr\u00fc\u00df \u4f60\u597d \ud83d\ude00 \u0000\t\"\\";

    /** What this consumer's thread waits for an answer that it did not get when it made the call. */
    private static final long PATIENCE_MS = 15_000;

    private final Map<String, Call> calls = new LinkedHashMap<>();
    /** Those that are not made unless asked for: they need a provider with one thread. */
    private final Set<String> special = new TreeSet<>();
    /** Those that send more than one request, or large ones. */
    private final Set<String> unrecordable = new TreeSet<>();

    /** The proxies that the calls go through. */
    static final class Services {
        IHelloService hello;
        TypesService types;
        UserService users;
        /** {@code types} in the group and version that is also published. */
        TypesService variant;
        /** {@code types} in a group that is not published. */
        TypesService missingGroup;
        /** {@code types} with a short timeout. */
        TypesService impatient;
        MissingService missing;
        GenericService map;
        GenericService gson;
        GenericService bean;
    }

    Calls(Services services) {
        returns("hash", "hello".hashCode(), () -> services.hello.hash("hello"));
        addTexts(services.types);
        addNumbers(services.types);
        addContainers(services.types);
        addTimes(services.types);
        addObjects(services.types);
        addAnything(services.types);
        addOverloads(services.types);
        addUsers(services.users);
        addFailures(services.types);
        addContext(services.types, services.variant);
        addWaysToCall(services.types);
        addGeneric(services.map, services.gson, services.bean);
        addRefusals(services);
        addSizes(services.types);
        addTimeouts(services);
    }

    /** All but those that need a provider with one thread. */
    List<String> names() {
        List<String> names = new ArrayList<>(calls.keySet());
        names.removeAll(special);
        return names;
    }

    /** Those that send one small request each, which can be told apart in a recording. */
    List<String> recordableNames() {
        List<String> names = names();
        names.removeAll(unrecordable);
        return names;
    }

    Call get(String name) {
        Call call = calls.get(name);
        if (call == null) {
            throw new IllegalArgumentException("no call " + name + "; there are " + names());
        }
        return call;
    }

    static String show(Object value) {
        if (value instanceof Throwable error) {
            return error.getClass().getName() + ": " + String.valueOf(error.getMessage()).lines().findFirst().orElse("");
        }
        String text = Arrays.deepToString(new Object[] {value});
        text = text.substring(1, text.length() - 1);
        text = text.replaceAll("\\p{Cntrl}", "?");
        return text.length() > 200 ? text.substring(0, 200) + "... (" + text.length() + ")" : text;
    }

    private void addTexts(TypesService types) {
        returns("text", "hello", () -> types.text("hello"));
        returns("text_empty", "", () -> types.text(""));
        returns("text_null", null, () -> types.text(null));
        returns("text_unicode", UNICODE, () -> types.text(UNICODE));
        returns("text_70000", 70_000, () -> types.textOfLen(70_000).length());
        returns("bytes", new byte[] {0, 1, -1, 127}, () -> types.bytes(new byte[] {0, 1, -1, 127}));
        byte[] large = new byte[5000];
        Arrays.fill(large, (byte) 0x7f);
        returns("bytes_5000", large, () -> types.bytes(large));
        returns("char16", 'x', () -> types.char16('x'));
    }

    private void addNumbers(TypesService types) {
        returns("bool", true, () -> types.bool(true));
        returns("int8", (byte) -8, () -> types.int8((byte) -8));
        returns("int16", (short) -1600, () -> types.int16((short) -1600));
        returns("int32", 1, () -> types.int32(1));
        returns("int32_min", Integer.MIN_VALUE, () -> types.int32(Integer.MIN_VALUE));
        returns("int64", 7_000_000_000L, () -> types.int64(7_000_000_000L));
        returns("int64_small", 3L, () -> types.int64(3L));
        returns("float32", 1.5f, () -> types.float32(1.5f));
        returns("float64", 0.1, () -> types.float64(0.1));
        returns("float64_whole", 2.0, () -> types.float64(2.0));
        returns("boxed_bool", false, () -> types.boxedBool(false));
        returns("boxed_int", 300_000, () -> types.boxedInt(300_000));
        returns("boxed_int_null", null, () -> types.boxedInt(null));
        returns("boxed_long", -5L, () -> types.boxedLong(-5L));
        returns("boxed_double", 2.5, () -> types.boxedDouble(2.5));
        BigDecimal decimal = new BigDecimal("12345678901234567890.123456789");
        returns("decimal", decimal, () -> types.decimal(decimal));
        BigInteger integer = BigInteger.TEN.pow(30);
        returns("big_integer", integer, () -> types.bigInteger(integer));
        returns("add", 5, () -> types.add(2, 3));
    }

    private void addContainers(TypesService types) {
        returns("int32s", new int[] {1, -2, 3}, () -> types.int32s(new int[] {1, -2, 3}));
        returns("int64s", new long[] {1, 1L << 40}, () -> types.int64s(new long[] {1, 1L << 40}));
        returns("int16s", new short[] {1, -2}, () -> types.int16s(new short[] {1, -2}));
        returns("float32s", new float[] {1.5f, 0.1f}, () -> types.float32s(new float[] {1.5f, 0.1f}));
        returns("float64s", new double[] {1.5, 0.1}, () -> types.float64s(new double[] {1.5, 0.1}));
        returns("bools", new boolean[] {true, false}, () -> types.bools(new boolean[] {true, false}));
        returns("chars", new char[] {'a', '\u4f60'}, () -> types.chars(new char[] {'a', '\u4f60'}));
        int[][] grid = {{1, 2}, {}, {3}};
        returns("grid", grid, () -> types.grid(grid));
        returns("text_array", new String[] {"a", "b"}, () -> types.textArray(new String[] {"a", "b"}));
        List<String> texts = new ArrayList<>(Arrays.asList("one", "two", "three"));
        returns("texts", texts, () -> types.texts(texts));
        returns("texts_empty", new ArrayList<>(), () -> types.texts(new ArrayList<>()));
        returns("text_set", new HashSet<>(texts), () -> types.textSet(new HashSet<>(texts)));
        Map<String, Integer> counts = new TreeMap<>(Collections.singletonMap("k", 1));
        returns("counts_tree", counts, () -> types.counts(counts));
        returns("counts", new LinkedHashMap<>(counts), () -> types.counts(new LinkedHashMap<>(counts)));
        Map<Integer, String> names = new LinkedHashMap<>(Map.of(1, "one", 300, "many"));
        returns("names", names, () -> types.names(names));
        Map<Color, BigDecimal> prices = new LinkedHashMap<>(Map.of(Color.RED, new BigDecimal("0.10")));
        returns("prices", prices, () -> types.prices(prices));
    }

    private void addTimes(TypesService types) {
        Date date = new Date(1_600_000_000_123L);
        returns("date", date, () -> types.date(date));
        returns("date_minutes", new Date(1_600_000_020_000L), () -> types.date(new Date(1_600_000_020_000L)));
        LocalDateTime dateTime = LocalDateTime.of(2024, 2, 29, 12, 30, 15, 500_000_000);
        returns("date_time", dateTime, () -> types.dateTime(dateTime));
        returns("local_date", dateTime.toLocalDate(), () -> types.localDate(dateTime.toLocalDate()));
        returns("local_time", dateTime.toLocalTime(), () -> types.localTime(dateTime.toLocalTime()));
        Instant instant = Instant.ofEpochSecond(1_600_000_000L, 123_456_789);
        returns("instant", instant, () -> types.instant(instant));
        Duration duration = Duration.ofSeconds(90, 5);
        returns("duration", duration, () -> types.duration(duration));
        OffsetDateTime offset = dateTime.atOffset(ZoneOffset.ofHours(8));
        returns("offset_date_time", offset, () -> types.offsetDateTime(offset));
        ZonedDateTime zoned = dateTime.atZone(ZoneId.of("Europe/Berlin"));
        returns("zoned_date_time", zoned, () -> types.zonedDateTime(zoned));
        Timestamp timestamp = new Timestamp(1_600_000_000_123L);
        returns("timestamp", timestamp, () -> types.timestamp(timestamp));
    }

    private void addObjects(TypesService types) {
        returns("color", Color.BLUE, () -> types.color(Color.BLUE));
        returns("level", Level.HIGH, () -> types.level(Level.HIGH));
        UUID uuid = UUID.fromString("01234567-89ab-cdef-0123-456789abcdef");
        returns("uuid", uuid, () -> types.uuid(uuid));
        returns("locale", Locale.SIMPLIFIED_CHINESE, () -> types.locale(Locale.SIMPLIFIED_CHINESE));
        Person alice = TypesServiceImpl.fullPerson("Alice", 30);
        returns("person", alice, () -> types.person(alice));
        returns("person_sparse", new Person("Zoe", 1), () -> types.person(new Person("Zoe", 1)));
        returns("people", Arrays.asList(alice, new Person("Zoe", 1)), () -> types.people(
                new ArrayList<>(Arrays.asList(alice, new Person("Zoe", 1)))));
        returns("twins", Arrays.asList(alice, alice), () -> types.twins(alice));
        returns("make_person", alice, () -> types.makePerson("Alice", 30));
        returns("person_null", null, () -> types.person(null));
        Address office = new OfficeAddress("ACME", "Main Street 1", "Springfield", 12345);
        returns("subclass", office, () -> types.address(office));
    }

    /** Where the interface says only {@code Object}. */
    private void addAnything(TypesService types) {
        List<Object> mixed = new ArrayList<>(Arrays.asList(1, "two", 3.5, null, true, 1L << 40));
        returns("any_list", mixed, () -> types.any(mixed));
        returns("any_long", 5L, () -> types.any(5L));
        returns("any_null", null, () -> types.any(null));
        Person zoe = new Person("Zoe", 1);
        returns("any_person", zoe, () -> types.any(zoe));
        returns("any_decimal", new BigDecimal("1E+3"), () -> types.any(new BigDecimal("1E+3")));
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("person", zoe);
        map.put("list", mixed);
        map.put("colour", Color.RED);
        returns("any_map", map, () -> types.anyMap(map));
    }

    private void addOverloads(TypesService types) {
        returns("echo_text", "String x", () -> types.echo("x"));
        returns("echo_int", 4, () -> types.echo(4));
        returns("echo_long", -4L, () -> types.echo(4L));
        returns("echo_double", 2.0, () -> types.echo(4.0));
        returns("echo_texts", Arrays.asList("x"), () -> types.echo(new ArrayList<>(Arrays.asList("x"))));
        returns("echo_two", "x and y", () -> types.echo("x", "y"));
        returns("echo_person", new Person("Zoe", 1), () -> types.echo(new Person("Zoe", 1)));
        returns("join", "a-b-c", () -> types.join("-", "a", "b", "c"));
        returns("join_none", "", () -> types.join("-"));
    }

    private void addUsers(UserService users) {
        returns("user", "Ben", () -> users.find(2).getName());
        returns("user_list", Arrays.asList(1L, 2L), () -> ids(users.list("", 2)));
        returns("user_none", new ArrayList<>(), () -> users.list("Nobody", 5));
        // A user of its own, so that other consumers do not meet it.
        repeatedly("user_life", "saved, replaced, removed once", () -> {
            Person saved = users.save(new Person("Zoe", 1));
            Person replaced = users.replace(saved.getId(), new Person("Zoe", 2));
            boolean isSame = saved.getId().equals(replaced.getId()) && users.find(saved.getId()).getAge() == 2;
            boolean[] removed = {users.remove(saved.getId()), users.remove(saved.getId())};
            return isSame && removed[0] && !removed[1];
        }, Boolean.TRUE::equals);
    }

    private static List<Long> ids(List<Person> people) {
        List<Long> ids = new ArrayList<>();
        people.forEach(person -> ids.add(person.getId()));
        return ids;
    }

    private void addFailures(TypesService types) {
        returns("nothing", null, () -> {
            types.nothing("x");
            return null;
        });
        returns("null_text", null, () -> types.nullText("x"));
        add("fail", "BusinessException: no luck, code 42", () -> types.fail("no luck"), result ->
                result instanceof BusinessException e && e.getCode() == 42 && "no luck".equals(e.getMessage()));
        add("fail_unchecked", "IllegalStateException: no state", () -> types.failUnchecked("no state"), result ->
                result instanceof IllegalStateException e && "no state".equals(e.getMessage()));
        add("fail_out_of_stock", "OutOfStockException with its warehouse and cause",
                () -> types.failOutOfStock("no tea"), result -> result instanceof OutOfStockException e
                        && "no tea".equals(e.getMessage())
                        && e.getWarehouse().getZip() == 20457
                        && e.getCause() instanceof IllegalArgumentException);
    }

    private void addContext(TypesService types, TypesService variant) {
        add("attachments", "a map with colour=red", () -> {
            RpcContext.getContext().setAttachment("colour", "red");
            return types.attachments();
        }, result -> result instanceof Map<?, ?> seen && "red".equals(seen.get("colour")));
        add("reply_attachment", "mood=good, as an attachment of the reply", () -> {
            types.replyWithAttachment("mood", "good");
            return Dialect.replyAttachment("mood");
        }, replied("good"));
        add("null_with_attachment", "mood=gone, as an attachment of a null", () -> {
            String result = types.nullWithAttachment("mood", "gone");
            return result == null ? Dialect.replyAttachment("mood") : result;
        }, replied("gone"));
        List<Object> value = new ArrayList<>(Arrays.asList(1, "two"));
        if (Dialect.HAS_OBJECT_ATTACHMENTS) {
            returns("object_attachment", value, () -> {
                Dialect.setAttachment("list", value);
                return types.attachment("list");
            });
            add("reply_object_attachment", "a list, as an attachment of the reply", () -> {
                types.replyWithObjectAttachment("list", value);
                return Dialect.replyAttachment("list");
            }, replied(value));
        }
        returns("variant", "plain", types::variant);
        returns("variant_blue", Provider.GROUP + "/" + Provider.VERSION, variant::variant);
    }

    /** A consumer of 2.7 gets the attachment, but does not find it in the calling thread's context. */
    private static Predicate<Object> replied(Object value) {
        return result -> value.equals(result) || result == null && Version.getVersion().startsWith("2.7");
    }

    private void addWaysToCall(TypesService types) {
        returns("dollar_echo", "hello", () -> ((EchoService) types).$echo("hello"));
        returns("async", "hello", () -> await(() -> types.text("hello")));
        add("async_fail", "BusinessException: no luck", () -> await(() -> types.fail("no luck")),
                result -> result instanceof BusinessException);
        if (Dialect.HAS_ASYNC_METHODS) {
            returns("later", "hello", () -> types.later("hello").get(PATIENCE_MS, TimeUnit.MILLISECONDS));
        }
        String key = UUID.randomUUID().toString();
        returns("one_way", null, () -> {
            RpcContext.getContext().asyncCall(() -> types.note(key));
            return null;
        });
        repeatedly("one_way_arrived", 1, () -> {
            long deadline = System.nanoTime() + PATIENCE_MS * 1_000_000;
            while (types.noted(key) == 0 && System.nanoTime() - deadline < 0) {
                TypesServiceImpl.pause(5);
            }
            return types.noted(key);
        }, result -> Objects.equals(result, 1));
        repeatedly("async_at_once", 100, () -> {
            List<CompletableFuture<Object>> all = new ArrayList<>();
            for (int i = 0; i < 100; i++) {
                String text = "text " + i;
                all.add(Dialect.async(() -> types.text(text)));
            }
            int nRight = 0;
            for (int i = 0; i < 100; i++) {
                nRight += all.get(i).get(PATIENCE_MS, TimeUnit.MILLISECONDS).equals("text " + i) ? 1 : 0;
            }
            return nRight;
        }, result -> Objects.equals(result, 100));
    }

    private static Object await(Callable<Object> call) throws Exception {
        try {
            return Dialect.async(call).get(PATIENCE_MS, TimeUnit.MILLISECONDS);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    private void addGeneric(GenericService map, GenericService gson, GenericService bean) {
        String[] text = {String.class.getName()};
        returns("generic_text", "hello", () -> map.$invoke("text", text, new Object[] {"hello"}));
        returns("generic_no_types", "hello", () -> map.$invoke("text", null, new Object[] {"hello"}));
        returns("generic_no_args", "plain", () -> map.$invoke("variant", new String[0], new Object[0]));
        returns("generic_async", "hello", () -> await(() -> map.$invoke("text", text, new Object[] {"hello"})));
        Map<String, Object> zoe = new LinkedHashMap<>();
        zoe.put("name", "Zoe");
        zoe.put("age", 1);
        String[] person = {Person.class.getName()};
        add("generic_person", "a map with name=Zoe", () -> map.$invoke("person", person, new Object[] {zoe}), result ->
                result instanceof Map<?, ?> seen && "Zoe".equals(seen.get("name")));
        String[] make = {String.class.getName(), "int"};
        add("generic_make_person", "maps in a map", () -> map.$invoke("makePerson", make, new Object[] {"Alice", 30}),
                result -> result instanceof Map<?, ?> seen
                        && seen.get("address") instanceof Map<?, ?> address
                        && Objects.equals(12345, address.get("zip"))
                        && String.valueOf(seen.get("color")).equals("GREEN"));
        Map<String, Object> office = new LinkedHashMap<>();
        office.put("class", OfficeAddress.class.getName());
        office.put("company", "ACME");
        add("generic_subclass", "a map with company=ACME", () -> map.$invoke(
                "address", new String[] {Address.class.getName()}, new Object[] {office}), result ->
                        result instanceof Map<?, ?> seen && "ACME".equals(seen.get("company")));
        add("generic_fail", "an exception that says no luck", () -> map.$invoke("fail", text, new Object[] {"no luck"}),
                saying("no luck"));
        if (gson != null) {
            add("generic_gson_person", "JSON with the name Zoe", () -> gson.$invoke(
                    "person", person, new Object[] {"{\"name\":\"Zoe\",\"age\":1}"}), result ->
                            String.valueOf(result).contains("Zoe"));
        }
        Person alice = TypesServiceImpl.fullPerson("Alice", 30);
        add("generic_bean_person", alice, () -> {
            Object sent = JavaBeanSerializeUtil.serialize(alice);
            return JavaBeanSerializeUtil.deserialize(
                    (JavaBeanDescriptor) bean.$invoke("person", person, new Object[] {sent}));
        }, alice::equals);
    }

    /** What providers refuse. A provider with one thread is needed for the last two. */
    private void addRefusals(Services services) {
        add("missing_service", "a refusal", () -> services.missing.text("x"), Calls::isRefusal);
        add("missing_group", "a refusal", () -> services.missingGroup.variant(), Calls::isRefusal);
        add("missing_method", "a refusal", () -> services.map.$invoke("noSuchMethod", new String[0], new Object[0]),
                result -> result instanceof Throwable);
        returns("occupy", null, () -> {
            RpcContext.getContext().asyncCall(() -> services.types.sleep(2_000));
            return null;
        });
        add("exhausted", "a refusal", () -> services.types.text("x"), Calls::isRefusal);
        special.addAll(Arrays.asList("occupy", "exhausted"));
    }

    /** A refusal comes at once, and not because nothing came. */
    private static boolean isRefusal(Object result) {
        return result instanceof RpcException e && !e.isTimeout();
    }

    private static Predicate<Object> saying(String part) {
        return result -> result instanceof Throwable e && String.valueOf(e.getMessage()).contains(part);
    }

    /** About Dubbo's limit of 8 MiB for a message. */
    private void addSizes(TypesService types) {
        int large = 5 << 20;
        String text = "x".repeat(large);
        repeatedly("text_5m", large, () -> types.text(text).length(), result -> Objects.equals(result, large));
        int fits = (8 << 20) - 1024;
        repeatedly("reply_8m", fits, () -> types.textOfLen(fits).length(), result -> Objects.equals(result, fits));
        repeatedly("reply_too_large", "a refusal", () -> types.textOfLen((8 << 20) + 1).length(), Calls::isRefusal);
        String tooLarge = "x".repeat((8 << 20) + 1);
        repeatedly("request_too_large", "a refusal", () -> types.text(tooLarge).length(), Calls::isRefusal);
        repeatedly("after_sizes", "hello", () -> types.text("hello"), "hello"::equals);
    }

    private void addTimeouts(Services services) {
        repeatedly("timeout", "a timeout", () -> services.impatient.sleep(2_000), result ->
                result instanceof RpcException e && e.isTimeout());
        repeatedly("after_timeout", "hello", () -> untilInTime(() -> services.impatient.text("hello")), "hello"::equals);
        repeatedly("slow", 1_000L, () -> services.types.sleep(1_000), result -> Objects.equals(result, 1_000L));
    }

    /** The first outcome of a call that is no timeout: a busy machine may be slower than a short one. */
    private static Object untilInTime(Callable<Object> call) throws Exception {
        long deadline = System.nanoTime() + PATIENCE_MS * 1_000_000;
        while (true) {
            try {
                return call.call();
            } catch (RpcException e) {
                if (!e.isTimeout() || deadline - System.nanoTime() < 0) {
                    throw e;
                }
            }
        }
    }

    /** A call that cannot be told apart in a recording. */
    private void repeatedly(String name, Object expected, Callable<Object> make, Predicate<Object> accepts) {
        unrecordable.add(name);
        add(name, expected, make, accepts);
    }

    private void returns(String name, Object expected, Callable<Object> make) {
        add(name, expected, make, result -> Objects.deepEquals(expected, result));
    }

    private void add(String name, Object expected, Callable<Object> make, Predicate<Object> accepts) {
        calls.put(name, new Call(make, expected, accepts));
    }
}
