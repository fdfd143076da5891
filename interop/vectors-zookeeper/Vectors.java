import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.jute.BinaryOutputArchive;
import org.apache.jute.Record;
import org.apache.zookeeper.MultiOperationRecord;
import org.apache.zookeeper.MultiResponse;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.proto.AuthPacket;
import org.apache.zookeeper.proto.ConnectRequest;
import org.apache.zookeeper.proto.ConnectResponse;
import org.apache.zookeeper.proto.CreateRequest;
import org.apache.zookeeper.proto.CreateResponse;
import org.apache.zookeeper.proto.DeleteRequest;
import org.apache.zookeeper.proto.ExistsRequest;
import org.apache.zookeeper.proto.ExistsResponse;
import org.apache.zookeeper.proto.GetChildren2Request;
import org.apache.zookeeper.proto.GetChildren2Response;
import org.apache.zookeeper.proto.GetDataRequest;
import org.apache.zookeeper.proto.GetDataResponse;
import org.apache.zookeeper.proto.RemoveWatchesRequest;
import org.apache.zookeeper.proto.ReplyHeader;
import org.apache.zookeeper.proto.RequestHeader;
import org.apache.zookeeper.proto.SetDataRequest;
import org.apache.zookeeper.proto.SetDataResponse;
import org.apache.zookeeper.proto.WatcherEvent;

/**
 * Writes frames as Java's own records write them, one line each: a name, a blank, and hexadecimal digits.
 *
 * <p>{@code java -cp 'interop/zookeeper-3.9/target/lib/*' interop/vectors-zookeeper/Vectors.java
 * > crates/zookeeper-proto/vectors/java.txt}
 */
public final class Vectors {
    private static final Stat STAT = new Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    private static final byte[] DATA = "é".getBytes(StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        byte[] password = new byte[16];
        for (byte i = 0; i < 16; i++) {
            password[i] = i;
        }
        print("connect", new ConnectRequest(0, 7, 30000, 0x1234, password, false));
        print("connected", new ConnectResponse(0, 20000, 0x5678, password, false));
        print("expired", new ConnectResponse(0, 0, 0, new byte[16], false));
        byte[] secret = "user:password".getBytes(StandardCharsets.UTF_8);
        print("auth", new RequestHeader(-4, ZooDefs.OpCode.auth), new AuthPacket(0, "digest", secret));
        print("authenticated", new ReplyHeader(-4, 0, 0));
        print("ping", new RequestHeader(-2, ZooDefs.OpCode.ping));
        requests();
        answers();
    }

    private static void requests() throws Exception {
        print("children", request(1, ZooDefs.OpCode.getChildren2), new GetChildren2Request("/a", true));
        print("exists", request(2, ZooDefs.OpCode.exists), new ExistsRequest("/a", true));
        print("data", request(3, ZooDefs.OpCode.getData), new GetDataRequest("/a", false));
        int ephemeral = CreateMode.EPHEMERAL.toFlag();
        print("create", request(4, ZooDefs.OpCode.create),
                new CreateRequest("/a/é", DATA, ZooDefs.Ids.OPEN_ACL_UNSAFE, ephemeral));
        print("create-creator", request(5, ZooDefs.OpCode.create),
                new CreateRequest("/a", new byte[0], ZooDefs.Ids.CREATOR_ALL_ACL, 0));
        List<ACL> readers = new ArrayList<>(ZooDefs.Ids.CREATOR_ALL_ACL);
        readers.addAll(ZooDefs.Ids.READ_ACL_UNSAFE);
        print("create-readers", request(6, ZooDefs.OpCode.create),
                new CreateRequest("/a", new byte[0], readers, 0));
        MultiOperationRecord both = new MultiOperationRecord(List.of(
                Op.delete("/a", 3),
                Op.create("/a", DATA, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL)));
        print("take-over", request(7, ZooDefs.OpCode.multi), both);
        print("delete", request(8, ZooDefs.OpCode.delete), new DeleteRequest("/a", 3));
        print("set-data", request(9, ZooDefs.OpCode.setData), new SetDataRequest("/a", DATA, 3));
        print("remove-watches", request(9, ZooDefs.OpCode.removeWatches),
                new RemoveWatchesRequest("/a", org.apache.zookeeper.Watcher.WatcherType.Any.getIntValue()));
        print("close", request(10, ZooDefs.OpCode.closeSession));
    }

    private static void answers() throws Exception {
        print("answer-children", reply(1), new GetChildren2Response(List.of("b", "é"), STAT));
        print("answer-exists", reply(2), new ExistsResponse(STAT));
        print("answer-data", reply(3), new GetDataResponse(DATA, STAT));
        print("answer-create", reply(4), new CreateResponse("/a/é"));
        print("answer-create-creator", new ReplyHeader(5, 99, -110));
        print("answer-create-readers", new ReplyHeader(6, 99, -102));
        MultiResponse failed = new MultiResponse();
        failed.add(new OpResult.ErrorResult(-103));
        failed.add(new OpResult.ErrorResult(-2));
        print("answer-take-over", reply(7), failed);
        print("answer-delete", reply(8));
        print("answer-set-data", reply(9), new SetDataResponse(STAT));
        print("event", new ReplyHeader(-1, -1, 0), new WatcherEvent(4, 3, "/a"));
    }

    private static RequestHeader request(int xid, int op) {
        return new RequestHeader(xid, op);
    }

    private static ReplyHeader reply(int xid) {
        return new ReplyHeader(xid, 99, 0);
    }

    private static void print(String name, Record... records) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        BinaryOutputArchive out = BinaryOutputArchive.getArchive(bytes);
        for (Record record : records) {
            record.serialize(out, "");
        }
        StringBuilder line = new StringBuilder(name).append(' ');
        byte[] length = ByteBuffer.allocate(4).putInt(bytes.size()).array();
        for (byte[] part : new byte[][] {length, bytes.toByteArray()}) {
            for (byte b : part) {
                line.append(String.format("%02x", b));
            }
        }
        System.out.println(line);
    }
}
