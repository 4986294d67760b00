package measure_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"testing"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
)

// The kernel counts the bytes of a connection, also below TLS, until it ends.
func TestTrafficIsCounted(t *testing.T) {
	t.Parallel()
	const answer = 12_345
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, answer)) }))
	defer server.Close()
	var conn net.Conn
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { conn = got.Conn },
	}), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if got, open := measure.TrafficOf(conn); !open || got.Received < answer || got.Received > 2*answer || got.Sent == 0 || got.Sent > answer {
		t.Errorf("%+v, %v, after an answer of %d bytes", got, open, answer)
	}
	server.Client().CloseIdleConnections()
	_ = conn.Close()
	if got, open := measure.TrafficOf(conn); open {
		t.Errorf("%+v of a connection that has ended", got)
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
