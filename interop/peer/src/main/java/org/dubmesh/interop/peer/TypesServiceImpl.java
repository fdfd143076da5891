package org.dubmesh.interop.peer;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.sql.Timestamp;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.dubbo.rpc.RpcContext;
import org.dubmesh.interop.Address;
import org.dubmesh.interop.BusinessException;
import org.dubmesh.interop.Color;
import org.dubmesh.interop.Level;
import org.dubmesh.interop.OutOfStockException;
import org.dubmesh.interop.Person;
import org.dubmesh.interop.TypesService;

/** Returns what it is given, except where the interface says otherwise. */
final class TypesServiceImpl implements TypesService {
    private final String variant;
    private final Map<String, Integer> notes = new ConcurrentHashMap<>();

    TypesServiceImpl(String variant) {
        this.variant = variant;
    }

    static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** A person with every field set and one friend, the same at every call. */
    static Person fullPerson(String name, int age) {
        Person person = new Person(name, age);
        person.setId(7_000_000_000L);
        person.setActive(true);
        person.setScore(1.5);
        person.setBalance(new BigDecimal("12345678901234567890.99"));
        person.setBorn(new Date(946_684_799_123L));
        person.setColor(Color.GREEN);
        person.setAddress(new Address("Main Street 1", "Springfield", 12345));
        person.setFriends(new ArrayList<>(Collections.singletonList(new Person("Bob", 42))));
        Map<String, Integer> counts = new LinkedHashMap<>();
        counts.put("one", 1);
        counts.put("many", 1_000_000);
        person.setCounts(counts);
        return person;
    }

    @Override
    public String text(String value) {
        return value;
    }

    @Override
    public boolean bool(boolean value) {
        return value;
    }

    @Override
    public byte int8(byte value) {
        return value;
    }

    @Override
    public short int16(short value) {
        return value;
    }

    @Override
    public int int32(int value) {
        return value;
    }

    @Override
    public long int64(long value) {
        return value;
    }

    @Override
    public float float32(float value) {
        return value;
    }

    @Override
    public double float64(double value) {
        return value;
    }

    @Override
    public char char16(char value) {
        return value;
    }

    @Override
    public Boolean boxedBool(Boolean value) {
        return value;
    }

    @Override
    public Integer boxedInt(Integer value) {
        return value;
    }

    @Override
    public Long boxedLong(Long value) {
        return value;
    }

    @Override
    public Double boxedDouble(Double value) {
        return value;
    }

    @Override
    public BigDecimal decimal(BigDecimal value) {
        return value;
    }

    @Override
    public BigInteger bigInteger(BigInteger value) {
        return value;
    }

    @Override
    public Date date(Date value) {
        return value;
    }

    @Override
    public LocalDateTime dateTime(LocalDateTime value) {
        return value;
    }

    @Override
    public LocalDate localDate(LocalDate value) {
        return value;
    }

    @Override
    public LocalTime localTime(LocalTime value) {
        return value;
    }

    @Override
    public Instant instant(Instant value) {
        return value;
    }

    @Override
    public Duration duration(Duration value) {
        return value;
    }

    @Override
    public OffsetDateTime offsetDateTime(OffsetDateTime value) {
        return value;
    }

    @Override
    public ZonedDateTime zonedDateTime(ZonedDateTime value) {
        return value;
    }

    @Override
    public Timestamp timestamp(Timestamp value) {
        return value;
    }

    @Override
    public UUID uuid(UUID value) {
        return value;
    }

    @Override
    public Locale locale(Locale value) {
        return value;
    }

    @Override
    public Color color(Color value) {
        return value;
    }

    @Override
    public Level level(Level value) {
        return value;
    }

    @Override
    public byte[] bytes(byte[] value) {
        return value;
    }

    @Override
    public int[] int32s(int[] value) {
        return value;
    }

    @Override
    public long[] int64s(long[] value) {
        return value;
    }

    @Override
    public short[] int16s(short[] value) {
        return value;
    }

    @Override
    public float[] float32s(float[] value) {
        return value;
    }

    @Override
    public double[] float64s(double[] value) {
        return value;
    }

    @Override
    public boolean[] bools(boolean[] value) {
        return value;
    }

    @Override
    public char[] chars(char[] value) {
        return value;
    }

    @Override
    public int[][] grid(int[][] value) {
        return value;
    }

    @Override
    public String[] textArray(String[] value) {
        return value;
    }

    @Override
    public String join(String separator, String... parts) {
        return String.join(separator, parts);
    }

    @Override
    public List<String> texts(List<String> value) {
        return value;
    }

    @Override
    public Set<String> textSet(Set<String> value) {
        return value;
    }

    @Override
    public Map<String, Integer> counts(Map<String, Integer> value) {
        return value;
    }

    @Override
    public Map<Integer, String> names(Map<Integer, String> value) {
        return value;
    }

    @Override
    public Map<Color, BigDecimal> prices(Map<Color, BigDecimal> value) {
        return value;
    }

    @Override
    public Map<String, Object> anyMap(Map<String, Object> value) {
        return value;
    }

    @Override
    public Object any(Object value) {
        return value;
    }

    @Override
    public Person person(Person value) {
        return value;
    }

    @Override
    public Address address(Address value) {
        return value;
    }

    @Override
    public List<Person> people(List<Person> value) {
        return value;
    }

    @Override
    public Map<Integer, Person> numbered(Map<Integer, Person> value) {
        return value;
    }

    @Override
    public List<Date> dates(List<Date> value) {
        return value;
    }

    @Override
    public List<BigDecimal> decimals(List<BigDecimal> value) {
        return value;
    }

    @Override
    public List<LocalDateTime> dateTimes(List<LocalDateTime> value) {
        return value;
    }

    @Override
    public List<Person> twins(Person value) {
        return new ArrayList<>(Arrays.asList(value, value));
    }

    @Override
    public Person makePerson(String name, int age) {
        return fullPerson(name, age);
    }

    @Override
    public int add(int left, int right) {
        return left + right;
    }

    @Override
    public void nothing(String value) {}

    @Override
    public String nullText(String value) {
        return null;
    }

    @Override
    public String echo(String value) {
        return "String " + value;
    }

    @Override
    public int echo(int value) {
        return value;
    }

    @Override
    public long echo(long value) {
        return -value;
    }

    @Override
    public double echo(double value) {
        return value / 2;
    }

    @Override
    public List<String> echo(List<String> value) {
        return value;
    }

    @Override
    public Person echo(Person value) {
        return value;
    }

    @Override
    public String echo(String left, String right) {
        return left + " and " + right;
    }

    @Override
    public String fail(String message) throws BusinessException {
        throw new BusinessException(message, 42);
    }

    @Override
    public String failUnchecked(String message) {
        throw new IllegalStateException(message);
    }

    @Override
    public String failOutOfStock(String message) {
        Address warehouse = new Address("Dock 7", "Hamburg", 20457);
        throw new OutOfStockException(message, warehouse, new IllegalArgumentException("the cause"));
    }

    @Override
    public long sleep(long millis) {
        pause(millis);
        return millis;
    }

    @Override
    public CompletableFuture<String> later(String value) {
        return CompletableFuture.supplyAsync(
                () -> value, CompletableFuture.delayedExecutor(20, TimeUnit.MILLISECONDS));
    }

    @Override
    public void note(String key) {
        notes.merge(key, 1, Integer::sum);
    }

    @Override
    public int noted(String key) {
        return notes.getOrDefault(key, 0);
    }

    @Override
    public String textOfLen(int len) {
        String alphabet = "abcdefghijklmnopqrstuvwxyz0123456789";
        StringBuilder text = new StringBuilder(len + alphabet.length());
        while (text.length() < len) {
            text.append(alphabet);
        }
        text.setLength(len);
        return text.toString();
    }

    @Override
    public Map<String, String> attachments() {
        return new TreeMap<>(RpcContext.getContext().getAttachments());
    }

    @Override
    public String replyWithAttachment(String name, String value) {
        RpcContext.getServerContext().setAttachment(name, value);
        return value;
    }

    @Override
    public String nullWithAttachment(String name, String value) {
        RpcContext.getServerContext().setAttachment(name, value);
        return null;
    }

    @Override
    public Object attachment(String name) {
        return Dialect.attachment(name);
    }

    @Override
    public Object replyWithObjectAttachment(String name, Object value) {
        Dialect.setReplyAttachment(name, value);
        return value;
    }

    @Override
    public String variant() {
        return variant;
    }
}
