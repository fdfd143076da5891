package org.dubmesh.interop.peer;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;
import org.apache.dubbo.rpc.RpcContext;

/** What Dubbo 2.7 and 3 have, and 2.6 has otherwise or not at all. */
final class Dialect {
    /** Whether attachments may be other than strings. */
    static final boolean HAS_OBJECT_ATTACHMENTS = true;
    /** Whether a method may return a {@code CompletableFuture}. */
    static final boolean HAS_ASYNC_METHODS = true;

    /** Whether {@code generic=gson} is known. */
    static final boolean HAS_GSON = true;

    private Dialect() {}

    /** The registry {@code etcd://}, {@code zookeeper://} or {@code nacos://HOST:PORT}, or none for null. */
    static RegistryConfig registry(String url, int sessionMs) {
        if (url == null) {
            return new RegistryConfig(RegistryConfig.NO_AVAILABLE);
        }
        RegistryConfig registry = new RegistryConfig(url.replaceFirst("^etcd:", "etcd3:"));
        registry.setUseAsConfigCenter(false);
        // Only there are mappings found. Dubbo 3 has no such center in etcd.
        registry.setUseAsMetadataCenter(url.matches("(zookeeper|nacos):.*") && usesApplications());
        registry.setTimeout(10_000);
        registry.setSession(sessionMs);
        Map<String, String> parameters = new HashMap<>();
        parameters.put("register-mode", System.getProperty("dubbo.application.register-mode"));
        registry.setParameters(parameters);
        return registry;
    }

    /** Whether more than the interface level is asked for, as provider or as consumer. */
    private static boolean usesApplications() {
        return !System.getProperty("dubbo.application.register-mode").equals("interface")
                || !System.getProperty("dubbo.application.service-discovery.migration").equals("FORCE_INTERFACE");
    }

    static void publish(
            Options options, RegistryConfig registry, ProtocolConfig protocol, List<ServiceConfig<?>> services)
            throws IOException {
        DubboBootstrap bootstrap = DubboBootstrap.getInstance()
                .application(new ApplicationConfig(options.text("--application")))
                .registry(registry)
                .protocol(protocol);
        services.forEach(bootstrap::service);
        Metadata.report(bootstrap, options);
        Metadata.write(options);
        bootstrap.start();
    }

    /** To be called before the first reference is made. */
    static void beginConsumer(String application, RegistryConfig registry) {
        DubboBootstrap.getInstance().application(new ApplicationConfig(application)).registry(registry);
    }

    static void prepare(ReferenceConfig<?> reference, String application, RegistryConfig registry) {
        // For registries without mappings.
        if (System.getProperty("dubmesh.provided-by") != null) {
            reference.setProvidedBy(System.getProperty("dubmesh.provided-by"));
        }
    }

    /** Makes an asynchronous call. */
    static CompletableFuture<Object> async(Callable<Object> call) {
        return RpcContext.getContext().asyncCall(call);
    }

    static void setAttachment(String name, Object value) {
        RpcContext.getContext().setObjectAttachment(name, value);
    }

    /** An attachment of the request that is being served. */
    static Object attachment(String name) {
        return RpcContext.getContext().getObjectAttachment(name);
    }

    static void setReplyAttachment(String name, Object value) {
        RpcContext.getServerContext().setObjectAttachment(name, value);
    }

    /** An attachment of the last reply. */
    static Object replyAttachment(String name) {
        return RpcContext.getServerContext().getObjectAttachment(name);
    }
}
