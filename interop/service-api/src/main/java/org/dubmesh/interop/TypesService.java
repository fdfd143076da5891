package org.dubmesh.interop;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDateTime;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.Set;

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

    Color color(Color value);

    byte[] bytes(byte[] value);

    int[] int32s(int[] value);

    long[] int64s(long[] value);

    String[] textArray(String[] value);

    List<String> texts(List<String> value);

    Set<String> textSet(Set<String> value);

    Map<String, Integer> counts(Map<String, Integer> value);

    Map<String, Object> anyMap(Map<String, Object> value);

    Object any(Object value);

    Person person(Person value);

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

    /** Sleeps and returns {@code millis}. */
    long sleep(long millis);

    /** Returns {@code len} characters of ASCII text. */
    String textOfLen(int len);

    /** Returns the attachments that the request carried. */
    Map<String, String> attachments();

    /** Answers with an attachment of this name and value, and returns the value. */
    String replyWithAttachment(String name, String value);

    /** The only method without arguments: which of the published variants this is. */
    String variant();
}
