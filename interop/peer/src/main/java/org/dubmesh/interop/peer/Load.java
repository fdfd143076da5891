package org.dubmesh.interop.peer;

import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.function.UnaryOperator;

/**
 * Asynchronous calls in a closed loop: as many as {@code --in-flight} wait for their answers, and each
 * answer begins the next call. After the warm-up it counts, and says what it saw as one line of JSON.
 */
final class Load {
    static final String SMALL = "a small string to be echoed";

    private final UnaryOperator<String> method;
    private final String request;
    private final String reply;
    private final int nInFlight;
    private final long countFrom;
    private final long countTo;
    private final double seconds;
    private final CountDownLatch running;

    Load(UnaryOperator<String> method, String request, String reply, Options options) {
        this.method = method;
        this.request = request;
        this.reply = reply;
        nInFlight = options.number("--in-flight");
        seconds = options.number("--seconds");
        countFrom = System.nanoTime() + options.number("--warm-up-seconds") * 1_000_000_000L;
        countTo = countFrom + options.number("--seconds") * 1_000_000_000L;
        running = new CountDownLatch(nInFlight);
    }

    String run() throws InterruptedException {
        Caller[] callers = new Caller[nInFlight];
        for (int i = 0; i < nInFlight; i++) {
            callers[i] = new Caller();
            callers[i].go();
        }
        running.await();
        Histogram all = new Histogram();
        long nErrors = 0;
        String firstError = "";
        for (Caller caller : callers) {
            all.add(caller.latencies);
            nErrors += caller.nErrors;
            firstError = firstError.isEmpty() ? caller.firstError : firstError;
        }
        if (!firstError.isEmpty()) {
            System.err.println("the first error: " + firstError);
        }
        return String.format(
                Locale.ROOT,
                "{\"calls_per_s\":%.1f,\"mean_ms\":%.3f,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"p999_ms\":%.3f,\"errors\":%d,"
                        + "\"calls\":%d,\"seconds\":%.0f,\"in_flight\":%d}",
                all.n / seconds, all.meanMs(), all.ms(0.5), all.ms(0.99), all.ms(0.999), nErrors, all.n, seconds, nInFlight);
    }

    /** One of the callers: one call after the other. Its next call begins on the thread of the answer. */
    private final class Caller {
        final Histogram latencies = new Histogram();
        long nErrors;
        String firstError = "";

        /** Calls until an answer has to be waited for, or the time is over. */
        void go() {
            while (true) {
                long began = System.nanoTime();
                if (began - countTo > 0) {
                    running.countDown();
                    return;
                }
                CompletableFuture<Object> answer;
                try {
                    answer = Dialect.async(() -> method.apply(request));
                } catch (Throwable e) {
                    ended(began, null, e);
                    continue;
                }
                if (!answer.isDone()) {
                    answer.whenComplete((result, error) -> {
                        ended(began, result, error);
                        go();
                    });
                    return;
                }
                answer.whenComplete((result, error) -> ended(began, result, error));
            }
        }

        private void ended(long began, Object result, Throwable error) {
            long now = System.nanoTime();
            if (now - countFrom < 0 || now - countTo > 0) {
                return;
            }
            if (reply.equals(result)) {
                latencies.add(now - began);
                return;
            }
            nErrors++;
            if (firstError.isEmpty()) {
                firstError = error == null ? "another text" : String.valueOf(error);
            }
        }
    }

    /** Durations in buckets less than a percent wide. */
    private static final class Histogram {
        /** A bucket holds durations whose first 8 binary digits are the same. */
        private static final int DIGITS = 7;

        private final long[] counts = new long[(64 - DIGITS) << DIGITS];
        long n;
        private double sum;

        void add(long nanos) {
            sum += nanos;
            int shift = Math.max(0, 63 - DIGITS - Long.numberOfLeadingZeros(nanos));
            counts[(shift << DIGITS) + (int) (nanos >> shift)]++;
            n++;
        }

        void add(Histogram other) {
            for (int i = 0; i < counts.length; i++) {
                counts[i] += other.counts[i];
            }
            n += other.n;
            sum += other.sum;
        }

        double meanMs() {
            return n == 0 ? 0 : sum / n / 1e6;
        }

        /** The duration that {@code part} of all stay below. */
        double ms(double part) {
            long left = (long) Math.ceil(n * part);
            for (int i = 0; i < counts.length; i++) {
                left -= counts[i];
                if (left <= 0 && n > 0) {
                    int shift = Math.max(0, (i >> DIGITS) - 1);
                    return ((long) (i - (shift << DIGITS)) << shift) / 1e6;
                }
            }
            return 0;
        }
    }
}
