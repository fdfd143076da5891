package org.dubmesh.interop.peer;

import com.alibaba.dubbo.performance.demo.provider.IHelloService;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.function.Predicate;
import org.apache.dubbo.common.Version;
import org.apache.dubbo.rpc.RpcContext;
import org.apache.dubbo.rpc.RpcException;
import org.apache.dubbo.rpc.service.GenericService;
import org.dubmesh.interop.BusinessException;
import org.dubmesh.interop.Color;
import org.dubmesh.interop.MissingService;
import org.dubmesh.interop.Person;
import org.dubmesh.interop.TypesService;

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

    private final Map<String, Call> calls = new LinkedHashMap<>();

    /** The proxies that the calls go through. */
    static final class Services {
        IHelloService hello;
        TypesService types;
        /** {@code types} in the group and version that is also published. */
        TypesService variant;
        /** {@code types} in a group that is not published. */
        TypesService missingGroup;
        MissingService missing;
        GenericService map;
        GenericService gson;
    }

    private final boolean isFastjson;

    Calls(Services services, boolean isFastjson) {
        this.isFastjson = isFastjson;
        returns("hash", "hello".hashCode(), () -> services.hello.hash("hello"));
        addTexts(services.types);
        addNumbers(services.types);
        addContainers(services.types);
        addObjects(services.types);
        addOverloads(services.types);
        addFailures(services.types);
        addContext(services.types, services.variant);
        addGeneric(services.map, services.gson);
        addRefusals(services);
    }

    /** All but those that need a provider with one thread. */
    List<String> names() {
        List<String> names = new ArrayList<>(calls.keySet());
        names.removeAll(Arrays.asList("occupy", "exhausted"));
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
        returns("text_array", new String[] {"a", "b"}, () -> types.textArray(new String[] {"a", "b"}));
        List<String> texts = new ArrayList<>(Arrays.asList("one", "two", "three"));
        returns("texts", texts, () -> types.texts(texts));
        returns("texts_empty", new ArrayList<>(), () -> types.texts(new ArrayList<>()));
        returns("text_set", new HashSet<>(texts), () -> types.textSet(new HashSet<>(texts)));
        Map<String, Integer> counts = new TreeMap<>(Collections.singletonMap("k", 1));
        returns("counts_tree", counts, () -> types.counts(counts));
        returns("counts", new LinkedHashMap<>(counts), () -> types.counts(new LinkedHashMap<>(counts)));
    }

    private void addObjects(TypesService types) {
        Date date = new Date(1_600_000_000_123L);
        returns("date", date, () -> types.date(date));
        LocalDateTime dateTime = LocalDateTime.of(2024, 2, 29, 12, 30, 15, 500_000_000);
        returns("date_time", dateTime, () -> types.dateTime(dateTime));
        returns("color", Color.BLUE, () -> types.color(Color.BLUE));
        Person alice = TypesServiceImpl.fullPerson("Alice", 30);
        returns("person", alice, () -> types.person(alice));
        returns("person_sparse", new Person("Zoe", 1), () -> types.person(new Person("Zoe", 1)));
        returns("people", Arrays.asList(alice, new Person("Zoe", 1)), () -> types.people(
                new ArrayList<>(Arrays.asList(alice, new Person("Zoe", 1)))));
        returns("twins", Arrays.asList(alice, alice), () -> types.twins(alice));
        returns("make_person", alice, () -> types.makePerson("Alice", 30));
    }

    private void addOverloads(TypesService types) {
        returns("echo_text", "String x", () -> types.echo("x"));
        returns("echo_int", 4, () -> types.echo(4));
        returns("echo_long", -4L, () -> types.echo(4L));
        returns("echo_double", 2.0, () -> types.echo(4.0));
        returns("echo_texts", Arrays.asList("x"), () -> types.echo(new ArrayList<>(Arrays.asList("x"))));
        returns("echo_two", "x and y", () -> types.echo("x", "y"));
    }

    private void addFailures(TypesService types) {
        returns("nothing", null, () -> {
            types.nothing("x");
            return null;
        });
        returns("null_text", null, () -> types.nullText("x"));
        // Dubbo's own fastjson consumer cannot read any exception, only its provider can write one.
        Predicate<Object> unreadable = refusedWith("expect Throwable");
        add("fail", "BusinessException: no luck, code 42", () -> types.fail("no luck"), result -> isFastjson
                ? unreadable.test(result)
                : result instanceof BusinessException e && e.getCode() == 42 && "no luck".equals(e.getMessage()));
        add("fail_unchecked", "IllegalStateException: no state", () -> types.failUnchecked("no state"), result ->
                isFastjson
                        ? unreadable.test(result)
                        : result instanceof IllegalStateException e && "no state".equals(e.getMessage()));
    }

    private void addContext(TypesService types, TypesService variant) {
        add("attachments", "a map with colour=red", () -> {
            RpcContext.getContext().setAttachment("colour", "red");
            return types.attachments();
        }, result -> result instanceof Map<?, ?> seen && "red".equals(seen.get("colour")));
        // A consumer of 2.7 gets the attachment, but does not find it in the calling thread's context.
        add("reply_attachment", "mood=good, as an attachment of the reply", () -> {
            types.replyWithAttachment("mood", "good");
            return RpcContext.getServerContext().getAttachment("mood");
        }, result -> "good".equals(result) || result == null && Version.getVersion().startsWith("2."));
        returns("variant", "plain", types::variant);
        returns("variant_blue", Provider.GROUP + "/" + Provider.VERSION, variant::variant);
    }

    private void addGeneric(GenericService map, GenericService gson) {
        String[] text = {String.class.getName()};
        returns("generic_text", "hello", () -> map.$invoke("text", text, new Object[] {"hello"}));
        Map<String, Object> zoe = new LinkedHashMap<>();
        zoe.put("name", "Zoe");
        zoe.put("age", 1);
        String[] person = {Person.class.getName()};
        add("generic_person", "a map with name=Zoe", () -> map.$invoke("person", person, new Object[] {zoe}), result ->
                result instanceof Map<?, ?> seen && "Zoe".equals(seen.get("name")));
        add("generic_gson_person", "JSON with the name Zoe", () -> gson.$invoke(
                "person", person, new Object[] {"{\"name\":\"Zoe\",\"age\":1}"}), result ->
                        String.valueOf(result).contains("Zoe"));
    }

    /** What providers refuse. A provider with one thread is needed for the last two. */
    private void addRefusals(Services services) {
        add("missing_service", "a refusal", () -> services.missing.text("x"), refusedWith("Fail to decode request"));
        add("missing_group", "a refusal", () -> services.missingGroup.variant(), refusedWith("Not found exported service"));
        add("missing_method", "a refusal", () -> services.map.$invoke("noSuchMethod", new String[0], new Object[0]),
                result -> result instanceof Throwable);
        returns("occupy", null, () -> {
            RpcContext.getContext().asyncCall(() -> services.types.sleep(2_000));
            return null;
        });
        add("exhausted", "a refusal", () -> services.types.text("x"), refusedWith("is exhausted"));
    }

    private static Predicate<Object> refusedWith(String message) {
        return result -> result instanceof RpcException e && e.getMessage().contains(message);
    }

    private void returns(String name, Object expected, Callable<Object> make) {
        add(name, expected, make, result -> Objects.deepEquals(expected, result));
    }

    private void add(String name, Object expected, Callable<Object> make, Predicate<Object> accepts) {
        calls.put(name, new Call(make, expected, accepts));
    }
}
