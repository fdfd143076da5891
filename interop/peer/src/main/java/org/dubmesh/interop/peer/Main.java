package org.dubmesh.interop.peer;

import java.io.IOException;
import java.lang.reflect.Field;
import java.net.InetAddress;
import org.apache.dubbo.common.utils.NetUtils;
import sun.misc.Signal;

/**
 * A Dubbo provider; with {@code --consume} or {@code --consume-registry} a consumer that calls every
 * method once, or with {@code --load} one method all the time.
 *
 * <p>A provider prints one line {@code READY dubbo://127.0.0.1:PORT} once it serves and is
 * registered. It ends when it gets SIGTERM and when its standard input closes, so that no test
 * leaves a virtual machine behind.
 */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        Options options;
        try {
            options = new Options(
                    args,
                    "--port", "0",
                    "--serialization", "hessian2",
                    "--threads", "200",
                    "--queues", "0",
                    "--sleep-ms", "50",
                    "--registry", "none",
                    "--metadata", "none",
                    "--definitions", "none",
                    "--telnet", "none",
                    "--session-ms", "5000",
                    "--application", "interop-provider",
                    "--heartbeat-ms", "60000",
                    "--weight", "100",
                    "--consume", "none",
                    "--consume-registry", "none",
                    "--calls", "all",
                    "--except", "none",
                    "--timeout-ms", "15000",
                    "--linger-ms", "0",
                    "--study-ms", "none",
                    "--load", "false",
                    "--request-bytes", "none",
                    "--in-flight", "64",
                    "--connections", "0",
                    "--warm-up-seconds", "5",
                    "--seconds", "20");
        } catch (IllegalArgumentException e) {
            System.err.println(e.getMessage());
            System.exit(2);
            return;
        }
        configure();
        stayOnLoopback();
        try {
            if (options.isSet("--consume") || options.isSet("--consume-registry")) {
                int nFailed = Consumer.run(options);
                // Nobody waits for a consumer: a graceful end would take seconds.
                Runtime.getRuntime().halt(nFailed == 0 ? 0 : 1);
            }
            Provider.start(options);
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1);
        }
        // The default handler would end with status 143; this one runs the same shutdown hooks.
        Signal.handle(new Signal("TERM"), signal -> System.exit(0));
        exitWhenInputCloses();
    }

    /** Turns off all that listens, reports or multicasts, in both versions. */
    private static void configure() {
        System.setProperty("dubbo.application.logger", "jdk");
        System.setProperty("dubbo.application.qos-enable", "false");
        System.setProperty("dubbo.application.qos.enable", "false");
        setDefault("dubbo.application.register-mode", "interface");
        setDefault("dubbo.application.service-discovery.migration", "FORCE_INTERFACE");
        setDefault("dubbo.application.metadata-type", "local");
        System.setProperty("dubbo.application.check-serializable", "true");
        System.setProperty("dubbo.application.serialize-check-status", "STRICT");
        // With Dubbo 3.2, a provider without it registers no instance either.
        boolean isInstance = !System.getProperty("dubbo.application.register-mode").equals("interface");
        System.setProperty("dubbo.application.register-consumer", String.valueOf(isInstance));
        System.setProperty("dubbo.metrics.export-metrics-service", "false");
        System.setProperty("dubbo.metrics.enable", "false");
        System.setProperty("dubbo.tracing.enable", "false");
        // A graceful stop waits this long for consumers to notice, then for calls to finish.
        setDefault("dubbo.service.shutdown.wait", "3000");
    }

    /** For what the command line of the virtual machine may say otherwise. */
    private static void setDefault(String name, String value) {
        if (System.getProperty(name) == null) {
            System.setProperty(name, value);
        }
    }

    /**
     * Makes Dubbo take the loopback address for its own: it refuses every configured address that
     * begins with 127, and so would register the address of some network card.
     */
    private static void stayOnLoopback() throws ReflectiveOperationException {
        Field address = NetUtils.class.getDeclaredField("LOCAL_ADDRESS");
        address.setAccessible(true);
        address.set(null, InetAddress.getLoopbackAddress());
    }

    private static void exitWhenInputCloses() throws IOException {
        while (System.in.read() >= 0) {
            // Input is only a sign of life.
        }
        System.exit(0);
    }
}
