package com.acme;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.dubbo.common.URL;
import org.apache.dubbo.common.serialize.ObjectInput;
import org.apache.dubbo.common.serialize.ObjectOutput;
import org.apache.dubbo.common.serialize.Serialization;
import org.apache.dubbo.rpc.model.FrameworkModel;

/**
 * {@code write DIR}: one file for each value of the table of {@link Vectors}, as Dubbo's own fastjson2
 * serialization writes it, without the four bytes of length in front. {@code check DIR}: every file
 * of DIR is read, and has to be the value that the table has for its name.
 */
public final class JsonbVectors {
    private static final URL NOWHERE = URL.valueOf("dubbo://127.0.0.1:1");
    private static final Serialization SERIALIZATION =
            FrameworkModel.defaultModel()
                    .getExtensionLoader(Serialization.class)
                    .getExtension("fastjson2");

    public static void main(String[] args) throws Exception {
        Map<String, Object> table = Vectors.table();
        Path dir = Path.of(args[1]);
        if (args[0].equals("refs")) {
            Files.write(dir.resolve("refs.bin"), write(Vectors.refs(table, JsonbVectors::write)));
            System.exit(0);
        }
        if (args[0].equals("write")) {
            Files.createDirectories(dir);
            int written = 0;
            for (Map.Entry<String, Object> entry : table.entrySet()) {
                try {
                    Files.write(dir.resolve(entry.getKey() + ".bin"), write(entry.getValue()));
                    written++;
                } catch (Exception e) {
                    System.out.println("NOT WRITTEN " + entry.getKey() + ": " + e);
                }
            }
            System.out.println(written + " vectors written");
            System.exit(0);
        }
        check(table, dir);
    }

    private static void check(Map<String, Object> table, Path dir) throws Exception {
        int bad = 0;
        List<Path> files = new ArrayList<>();
        try (var all = Files.list(dir)) {
            all.filter(path -> path.toString().endsWith(".bin")).sorted().forEach(files::add);
        }
        for (Path file : files) {
            // NAME.bin or NAME@how-it-was-made.bin
            String name = file.getFileName().toString().replaceAll("(@.*)?\\.bin$", "");
            Object expected = table.get(name);
            String problem = null;
            try {
                Class<?> type = expected == null ? Object.class : expected.getClass();
                if (expected instanceof Enum<?> constant) {
                    type = constant.getDeclaringClass();
                }
                boolean isElement = file.getFileName().toString().contains("@element");
                Object value = read(Files.readAllBytes(file), isElement ? List.class : type);
                if (isElement) {
                    value = ((List<?>) value).get(0);
                }
                if (!Vectors.same(expected, value)) {
                    problem = Vectors.text(value);
                }
            } catch (Throwable e) {
                problem = e.toString();
            }
            if (problem != null) {
                bad++;
                System.out.println("BAD " + file.getFileName() + ": " + problem + ", expected " + Vectors.text(expected));
            }
        }
        System.out.println(files.size() + " files checked, " + bad + " bad");
        System.exit(bad == 0 && !files.isEmpty() ? 0 : 1);
    }

    private static byte[] write(Object value) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        ObjectOutput out = SERIALIZATION.serialize(NOWHERE, bytes);
        out.writeObject(value);
        out.flushBuffer();
        ByteBuffer framed = ByteBuffer.wrap(bytes.toByteArray());
        byte[] body = new byte[framed.getInt()];
        framed.get(body);
        return body;
    }

    private static Object read(byte[] bytes, Class<?> type) throws Exception {
        byte[] framed = ByteBuffer.allocate(4 + bytes.length).putInt(bytes.length).put(bytes).array();
        ObjectInput in = SERIALIZATION.deserialize(NOWHERE, new ByteArrayInputStream(framed));
        return in.readObject(type);
    }

    private JsonbVectors() {}
}
