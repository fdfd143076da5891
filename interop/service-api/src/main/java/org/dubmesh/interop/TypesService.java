package org.dubmesh.interop;

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
import java.util.Date;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

/**
 * One method for each kind of value that can travel. Most of them return what they were given, so
 * that a test sees both directions at once.
 */
public interface TypesService {
    String text(String value);

    boolean bool(boolean value);

    byte int8(byte value);

    short int16(short value);

    int int32(int value);

    long int64(long value);

    float float32(float value);

    double float64(double value);

    char char16(char value);

    Boolean boxedBool(Boolean value);

    Integer boxedInt(Integer value);

    Long boxedLong(Long value);

    Double boxedDouble(Double value);

    BigDecimal decimal(BigDecimal value);

    BigInteger bigInteger(BigInteger value);

    Date date(Date value);

    LocalDateTime dateTime(LocalDateTime value);

    LocalDate localDate(LocalDate value);

    LocalTime localTime(LocalTime value);

    Instant instant(Instant value);

    Duration duration(Duration value);

    OffsetDateTime offsetDateTime(OffsetDateTime value);

    ZonedDateTime zonedDateTime(ZonedDateTime value);

    Timestamp timestamp(Timestamp value);

    UUID uuid(UUID value);

    Locale locale(Locale value);

    Color color(Color value);

    /** An enum whose constants have bodies. */
    Level level(Level value);

    byte[] bytes(byte[] value);

    int[] int32s(int[] value);

    long[] int64s(long[] value);

    short[] int16s(short[] value);

    float[] float32s(float[] value);

    double[] float64s(double[] value);

    boolean[] bools(boolean[] value);

    char[] chars(char[] value);

    int[][] grid(int[][] value);

    String[] textArray(String[] value);

    /** Returns the parts with the separator between them. */
    String join(String separator, String... parts);

    List<String> texts(List<String> value);

    Set<String> textSet(Set<String> value);

    Map<String, Integer> counts(Map<String, Integer> value);

    /** Keys that are not strings. */
    Map<Integer, String> names(Map<Integer, String> value);

    Map<Color, BigDecimal> prices(Map<Color, BigDecimal> value);

    Map<String, Object> anyMap(Map<String, Object> value);

    Object any(Object value);

    Person person(Person value);

    /** What is given may be an object of a subclass, and comes back as one. */
    Address address(Address value);

    List<Person> people(List<Person> value);

    Map<Integer, Person> numbered(Map<Integer, Person> value);

    List<Date> dates(List<Date> value);

    List<BigDecimal> decimals(List<BigDecimal> value);

    List<LocalDateTime> dateTimes(List<LocalDateTime> value);

    /** Returns a list that holds the same person twice: the second is a back reference. */
    List<Person> twins(Person value);

    /** Returns a new person whose friends, address and color are all set. */
    Person makePerson(String name, int age);

    int add(int left, int right);

    void nothing(String value);

    String nullText(String value);

    String echo(String value);

    int echo(int value);

    long echo(long value);

    double echo(double value);

    List<String> echo(List<String> value);

    Person echo(Person value);

    String echo(String left, String right);

    /** Always throws the declared exception. */
    String fail(String message) throws BusinessException;

    /** Always throws an {@link IllegalStateException}. */
    String failUnchecked(String message);

    /** Always throws an unchecked exception of the services' own, with a cause. */
    String failOutOfStock(String message);

    /** Sleeps and returns {@code millis}. */
    long sleep(long millis);

    /** Answers after a while, without a thread that waits. Dubbo 2.6 does not know such methods. */
    CompletableFuture<String> later(String value);

    /** Counts the calls with this key, for callers who get no reply. */
    void note(String key);

    /** How often {@link #note} was called with this key. */
    int noted(String key);

    /** Returns {@code len} characters of ASCII text. */
    String textOfLen(int len);

    /** Returns the attachments that the request carried. */
    Map<String, String> attachments();

    /** Answers with an attachment of this name and value, and returns the value. */
    String replyWithAttachment(String name, String value);

    /** Returns null, with an attachment. */
    String nullWithAttachment(String name, String value);

    /** Returns the attachment that the request carried, which need not be a string since 2.7. */
    Object attachment(String name);

    /** Answers with an attachment that is no string, and returns it. Not with 2.6. */
    Object replyWithObjectAttachment(String name, Object value);

    /** Which of the published variants this is. */
    String variant();
}
