package org.dubmesh.vectors;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.logging.LogManager;
import org.apache.dubbo.common.URL;
import org.apache.dubbo.common.config.configcenter.ConfigChangeType;
import org.apache.dubbo.common.config.configcenter.ConfigChangedEvent;
import org.apache.dubbo.rpc.Invocation;
import org.apache.dubbo.rpc.Invoker;
import org.apache.dubbo.rpc.Result;
import org.apache.dubbo.rpc.RpcInvocation;
import org.apache.dubbo.rpc.cluster.Configurator;
import org.apache.dubbo.rpc.cluster.configurator.parser.ConfigParser;
import org.apache.dubbo.rpc.cluster.loadbalance.ConsistentHashLoadBalance;
import org.apache.dubbo.rpc.cluster.router.condition.config.ListenableStateRouter;
import org.apache.dubbo.rpc.cluster.router.state.AbstractStateRouter;
import org.apache.dubbo.rpc.cluster.router.state.BitList;
import org.apache.dubbo.rpc.cluster.router.state.TailStateRouter;
import org.apache.dubbo.rpc.cluster.router.tag.TagStateRouter;
import org.yaml.snakeyaml.Yaml;

/** Writes what Dubbo's own routers keep, and what its own ring picks, for every case of the table. */
public final class RuleVectors {
    /** How often a rule is asked that draws among destinations. */
    private static final int DRAWS = 2000;

    public static void main(String[] args) throws Exception {
        // Dubbo logs every rule that it cannot read, and there are many on purpose.
        LogManager.getLogManager().reset();
        Map<String, Object> table;
        try (Reader reader = Files.newBufferedReader(Path.of(args[0]))) {
            table = new Yaml().load(reader);
        }
        write(args[1], rules(table));
        write(args[2], Rings.cases());
        System.exit(0);
    }

    private static void write(String file, Object value) throws Exception {
        Files.createDirectories(Path.of(file).getParent());
        Files.writeString(Path.of(file), JSON.toJSONString(value, JSONWriter.Feature.PrettyFormat,
                JSONWriter.Feature.LargeObject) + "\n");
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> rules(Map<String, Object> table) {
        List<String> consumers = (List<String>) table.get("consumers");
        List<List<String>> providers = (List<List<String>>) table.get("providers");
        List<Map<String, Object>> calls = (List<Map<String, Object>>) table.get("calls");
        List<Map<String, String>> rules = (List<Map<String, String>>) table.get("rules");
        Map<String, String> results = new LinkedHashMap<>();
        for (Map<String, String> rule : rules) {
            List<String> kept = new ArrayList<>();
            for (String consumer : consumers) {
                for (List<String> list : providers) {
                    for (Map<String, Object> call : calls) {
                        kept.add(String.join("|", kept(rule, consumer, list, call)));
                    }
                }
            }
            results.put(rule.get("name"), String.join(" ", kept));
        }
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("consumers", consumers.stream().map(RuleVectors::parts).toList());
        all.put("providers", providers.stream().map(list -> list.stream().map(RuleVectors::parts).toList()).toList());
        all.put("calls", calls);
        all.put("rules", rules);
        all.put("results", results);
        all.put("endpoints", ((List<String>) table.get("endpoints")).stream().map(RuleVectors::parts).toList());
        all.put("configurators", table.get("configurators"));
        all.put("changes", changes(table));
        return all;
    }

    /** What configurators change at each endpoint; null where Dubbo cannot read the rule. */
    @SuppressWarnings("unchecked")
    private static Map<String, Object> changes(Map<String, Object> table) {
        Map<String, Object> all = new LinkedHashMap<>();
        for (Map<String, String> rule : (List<Map<String, String>>) table.get("configurators")) {
            List<Configurator> configurators;
            try {
                List<URL> urls = ConfigParser.parseConfigurators(rule.get("text"));
                configurators = Configurator.toConfigurators(urls).orElse(List.of());
            } catch (RuntimeException e) {
                all.put(rule.get("name"), null);
                continue;
            }
            List<Map<String, String>> changes = new ArrayList<>();
            for (String endpoint : (List<String>) table.get("endpoints")) {
                URL before = URL.valueOf(endpoint);
                URL after = URL.valueOf(endpoint);
                for (Configurator configurator : configurators) {
                    after = configurator.configure(after);
                }
                Map<String, String> changed = new TreeMap<>(after.getParameters());
                before.getParameters().forEach((key, value) -> changed.remove(key, value));
                // What the rule says of itself is no change that anything reads.
                changed.remove("providerAddresses");
                changes.add(changed);
            }
            all.put(rule.get("name"), changes);
        }
        return all;
    }

    /** A URL as Dubbo reads it. */
    private static Map<String, Object> parts(String text) {
        URL url = URL.valueOf(text);
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("protocol", url.getProtocol());
        all.put("host", url.getHost());
        all.put("port", url.getPort());
        all.put("path", url.getPath());
        all.put("params", new TreeMap<>(url.getParameters()));
        return all;
    }

    /** Every list of endpoints that can be left: their numbers with commas, or "-" for none. */
    private static TreeSet<String> kept(
            Map<String, String> rule, String consumer, List<String> providers, Map<String, Object> call) {
        URL url = URL.valueOf(consumer);
        List<Invoker<Object>> list = new ArrayList<>();
        for (String provider : providers) {
            list.add(new Endpoint(URL.valueOf(provider)));
        }
        BitList<Invoker<Object>> invokers = new BitList<>(list);
        boolean isTag = rule.get("kind").equals("tag");
        AbstractStateRouter<Object> router = isTag ? new TagStateRouter<>(url) : new Conditions(url);
        router.setNextRouter(TailStateRouter.getInstance());
        router.notify(invokers);
        ConfigChangedEvent event =
                new ConfigChangedEvent("key", "dubbo", rule.get("text"), ConfigChangeType.MODIFIED);
        if (router instanceof TagStateRouter<Object> tags) {
            tags.process(event);
        } else if (router instanceof Conditions conditions) {
            conditions.process(event);
        }
        int draws = rule.get("text").contains("weight") ? DRAWS : 1;
        TreeSet<String> kept = new TreeSet<>();
        for (int i = 0; i < draws; i++) {
            BitList<Invoker<Object>> left = router.route(invokers.clone(), url, invocation(call), false, null);
            StringBuilder text = new StringBuilder();
            for (Invoker<Object> invoker : left) {
                text.append(text.length() == 0 ? "" : ",").append(list.indexOf(invoker));
            }
            kept.add(text.length() == 0 ? "-" : text.toString());
        }
        return kept;
    }

    @SuppressWarnings("unchecked")
    private static Invocation invocation(Map<String, Object> call) {
        RpcInvocation invocation = new RpcInvocation();
        invocation.setMethodName((String) call.get("method"));
        List<Object> arguments = (List<Object>) call.get("arguments");
        invocation.setArguments(arguments.toArray());
        invocation.setParameterTypes(new Class<?>[arguments.size()]);
        ((Map<String, String>) call.get("attachments")).forEach(invocation::setAttachment);
        return invocation;
    }

    private static final class Conditions extends ListenableStateRouter<Object> {
        Conditions(URL url) {
            super(url, "");
        }
    }

    /** A provider that is never called. */
    record Endpoint(URL url) implements Invoker<Object> {
        @Override
        public Class<Object> getInterface() {
            return Object.class;
        }

        @Override
        public Result invoke(Invocation invocation) {
            throw new UnsupportedOperationException();
        }

        @Override
        public URL getUrl() {
            return url;
        }

        @Override
        public boolean isAvailable() {
            return true;
        }

        @Override
        public void destroy() {}
    }

    /** Where the ring of Dubbo's ConsistentHashLoadBalance sends calls. */
    static final class Rings {
        static List<Object> cases() {
            List<Object> cases = new ArrayList<>();
            for (int nodes : new int[] {160, 40, 3, 10}) {
                for (String indexes : new String[] {"0", "0,1", "1,0", "7", "-1,1"}) {
                    for (int n : new int[] {2, 3, 5, 10}) {
                        cases.add(ring(nodes, indexes, n));
                    }
                }
            }
            return cases;
        }

        private static Map<String, Object> ring(int nodes, String indexes, int n) {
            List<Invoker<Object>> invokers = new ArrayList<>();
            List<String> addresses = new ArrayList<>();
            for (int i = 0; i < n; i++) {
                String address = "10.0." + n + "." + (i + 1) + ":" + (20880 + i % 3);
                addresses.add(address);
                invokers.add(new Endpoint(URL.valueOf("dubbo://" + address + "/com.acme.Orders?hash.nodes=" + nodes
                        + "&hash.arguments=" + indexes)));
            }
            ConsistentHashLoadBalance balance = new ConsistentHashLoadBalance();
            URL consumer = URL.valueOf("consumer://10.9.9.9/com.acme.Orders");
            List<Object> picks = new ArrayList<>();
            for (int key = 0; key < 20; key++) {
                Object[] arguments = {key % 4 == 0 ? (Object) key : "user-\u4e2d" + key * 7919, 1L << key, null};
                RpcInvocation invocation = new RpcInvocation();
                invocation.setMethodName("create");
                invocation.setArguments(arguments);
                invocation.setParameterTypes(new Class<?>[arguments.length]);
                int index;
                try {
                    index = invokers.indexOf(balance.select(invokers, consumer, invocation));
                } catch (NullPointerException e) {
                    index = -1; // a ring of fewer than four nodes is empty
                }
                List<String> texts = new ArrayList<>();
                for (Object argument : arguments) {
                    texts.add(String.valueOf(argument));
                }
                picks.add(Map.of("arguments", texts, "index", index));
            }
            Map<String, Object> all = new LinkedHashMap<>();
            all.put("nodes", nodes);
            all.put("indexes", indexes);
            all.put("addresses", addresses);
            all.put("picks", picks);
            return all;
        }
    }
}
