package org.dubmesh.interop.peer;

import com.alibaba.dubbo.config.ApplicationConfig;
import com.alibaba.dubbo.config.ProtocolConfig;
import com.alibaba.dubbo.config.ReferenceConfig;
import com.alibaba.dubbo.config.RegistryConfig;
import com.alibaba.dubbo.config.ServiceConfig;
import com.alibaba.dubbo.remoting.exchange.ResponseCallback;
import com.alibaba.dubbo.rpc.Result;
import com.alibaba.dubbo.rpc.RpcContext;
import com.alibaba.dubbo.rpc.protocol.dubbo.FutureAdapter;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;

/** What Dubbo 2.6 has otherwise than 2.7 and 3, or not at all. */
final class Dialect {
    /** Whether attachments may be other than strings. */
    static final boolean HAS_OBJECT_ATTACHMENTS = false;
    /** Whether a method may return a {@code CompletableFuture}. */
    static final boolean HAS_ASYNC_METHODS = false;

    /** Whether {@code generic=gson} is known. */
    static final boolean HAS_GSON = false;

    private Dialect() {}

    /** No registry: the only ones of 2.6 are ZooKeeper, Redis, multicast and Dubbo's own. */
    static RegistryConfig registry(String url, int sessionMs) {
        if (url != null) {
            throw new IllegalArgumentException("Dubbo 2.6 has no registry for " + url);
        }
        return new RegistryConfig(RegistryConfig.NO_AVAILABLE);
    }

    static void publish(
            Options options, RegistryConfig registry, ProtocolConfig protocol, List<ServiceConfig<?>> services) {
        if (options.isSet("--metadata") || options.isSet("--definitions")) {
            throw new IllegalArgumentException("Dubbo 2.6 knows no service definitions");
        }
        for (ServiceConfig<?> service : services) {
            service.setApplication(new ApplicationConfig(options.text("--application")));
            service.setRegistry(registry);
            service.setProtocol(protocol);
            service.export();
        }
    }

    static void beginConsumer(String application, RegistryConfig registry) {}

    static void prepare(ReferenceConfig<?> reference, String application, RegistryConfig registry) {
        reference.setApplication(new ApplicationConfig(application));
        reference.setRegistry(registry);
    }

    /** Makes an asynchronous call. Its future knows only callbacks. */
    static CompletableFuture<Object> async(Callable<Object> call) {
        CompletableFuture<Object> result = new CompletableFuture<>();
        FutureAdapter<?> future = (FutureAdapter<?>) RpcContext.getContext().asyncCall(call);
        future.getFuture().setCallback(new ResponseCallback() {
            @Override
            public void done(Object response) {
                Result answer = (Result) response;
                if (answer.hasException()) {
                    result.completeExceptionally(answer.getException());
                } else {
                    result.complete(answer.getValue());
                }
            }

            @Override
            public void caught(Throwable exception) {
                result.completeExceptionally(exception);
            }
        });
        return result;
    }

    static void setAttachment(String name, Object value) {
        RpcContext.getContext().setAttachment(name, (String) value);
    }

    /** An attachment of the request that is being served. */
    static Object attachment(String name) {
        return RpcContext.getContext().getAttachment(name);
    }

    static void setReplyAttachment(String name, Object value) {
        RpcContext.getServerContext().setAttachment(name, (String) value);
    }

    /** An attachment of the last reply. */
    static Object replyAttachment(String name) {
        return RpcContext.getServerContext().getAttachment(name);
    }
}
