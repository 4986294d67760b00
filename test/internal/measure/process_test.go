package measure_test

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
)

// The kernel counts the bytes of each connection, and those of other ports are left out.
func TestSocketsCountBytes(t *testing.T) {
	t.Parallel()
	const sent, received = 70_000, 12_345
	var dialed []net.Conn
	port := 0
	for range 2 {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		at, is := listener.Addr().(*net.TCPAddr)
		if !is {
			t.Fatalf("listening at %v", listener.Addr())
		}
		port = at.Port
		conn, err := net.Dial("tcp4", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		dialed = append(dialed, conn)
		peer, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Close()
		if _, err = conn.Write(make([]byte, sent)); err != nil {
			t.Fatal(err)
		}
		if _, err = io.ReadFull(peer, make([]byte, sent)); err != nil {
			t.Fatal(err)
		}
		if _, err = peer.Write(make([]byte, received)); err != nil {
			t.Fatal(err)
		}
		if _, err = io.ReadFull(conn, make([]byte, received)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := measure.Sockets(port)
	if err != nil {
		t.Fatal(err)
	}
	from, is := dialed[1].LocalAddr().(*net.TCPAddr)
	if !is {
		t.Fatalf("connected from %v", dialed[1].LocalAddr())
	}
	local := from.Port
	if len(got) != 1 || int(got[0].LocalPort) != local || got[0].Received != received {
		t.Fatalf("%+v, want one connection from port %d with %d bytes received", got, local, received)
	}
	// tcpi_bytes_acked counts the SYN, too.
	if extra := got[0].Sent - sent; extra > 1 {
		t.Errorf("%d bytes were sent, want %d", got[0].Sent, sent)
	}
}

func TestProcessIsRead(t *testing.T) {
	t.Parallel()
	const held = 64 << 20
	before, err := measure.RSS(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	memory := make([]byte, held)
	for i := range memory {
		memory[i] = byte(i)
	}
	after, err := measure.RSS(os.Getpid())
	if err != nil || after-before < held/2 {
		t.Errorf("%d bytes more after %d were written to (%v)", after-before, held, err)
	}
	spent, err := measure.CPU(os.Getpid())
	if err != nil || spent <= 0 {
		t.Errorf("this process has used %v (%v)", spent, err)
	}
	machine, err := measure.ReadMachineCPU()
	if err != nil || machine.Busy < spent || machine.Idle < 0 || machine.Stolen < 0 {
		t.Errorf("the machine has used %+v, this process %v of it (%v)", machine, spent, err)
	}
	if _, err := measure.CPU(1 << 30); err == nil {
		t.Error("a process that does not exist was read")
	}
	if rest := machine.Since(measure.MachineCPU{Busy: time.Second}); rest.Busy != machine.Busy-time.Second {
		t.Errorf("%v passed", rest.Busy)
	}
	_ = memory[0]
}
