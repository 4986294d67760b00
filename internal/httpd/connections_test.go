package httpd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/httpd"
)

// dial connects from one of the machine's own addresses, sends a request and reads its answer. The
// connection is idle then. It fails where the server closes it.
func dial(tb testing.TB, url, from, path string) (net.Conn, error) {
	tb.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	connection, err := dialer.DialContext(tb.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: node\r\n\r\n", path)
	if err == nil {
		var answer *http.Response
		if answer, err = http.ReadResponse(bufio.NewReader(connection), nil); err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			err = errors.Join(err, answer.Body.Close())
		}
	}
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	tb.Cleanup(func() { _ = connection.Close() }) // the server may have closed it
	return connection, nil
}

// A client that opens connections and keeps them gets few, and the probes come through all the same.
func TestFaultIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	url, _, _ := serve(t, checks{}, list)
	open := 0
	for i := range 40 {
		for range 20 {
			if _, err := dial(t, url, fmt.Sprintf("127.0.1.%d", i+1), "/livez"); err == nil {
				open++
			}
		}
	}
	if open != 256 {
		t.Errorf("%d connections are open, want 256", open)
	}
	if _, err := dial(t, url, "127.0.0.1", "/livez"); err != nil {
		t.Errorf("the node itself is refused: %v", err)
	}
	if _, err := dial(t, url, "127.0.2.1", "/livez"); err == nil {
		t.Error("another address is not refused")
	}
}

// A page that is asked many times at once says so.
func TestFaultEachPageHasALimitOfRequests(t *testing.T) {
	t.Parallel()
	for page, most := range map[string]int{"/debug/status": 4} {
		entered, leave := make(chan struct{}), make(chan struct{})
		url, _, _ := serve(t, checks{}, func(r *http.Request) (any, error) {
			entered <- struct{}{}
			<-leave
			return list(r)
		})
		answers := make(chan error, most)
		for range most {
			go func() {
				_, err := dial(t, url, "127.0.0.1", page)
				answers <- err
			}()
			<-entered
		}
		if status, body := ask(t, http.MethodGet, url+page); status != http.StatusServiceUnavailable {
			t.Errorf("%s, one more than %d requests: %d %q", page, most, status, body)
		}
		if status, _ := ask(t, http.MethodGet, url+"/livez"); status != http.StatusOK {
			t.Errorf("/livez = %d meanwhile", status)
		}
		close(leave)
		for range most {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
	}
}

// serveOnly is the environment variable that makes this program a server alone, for the benchmark.
const serveOnly = "EVICTD_TEST_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveOnly) == "" {
		os.Exit(m.Run())
	}
	well := httpd.Probe(func() error { return nil })
	server, err := httpd.Listen(context.Background(), "127.0.0.1:0", map[string]http.Handler{"GET /livez": well})
	if err != nil {
		panic(err)
	}
	fmt.Println(server.Addr())
	_ = server.Run(context.Background()) // it is killed
}

// BenchmarkIdleConnections opens 10,000 connections from 1,000 addresses to a server in a process of
// its own, each with one request, and prints how many stay and what the server's memory is before
// and after.
func BenchmarkIdleConnections(b *testing.B) {
	for range b.N {
		server := exec.CommandContext(b.Context(), os.Args[0])
		server.Env = append(os.Environ(), serveOnly+"=1")
		out, err := server.StdoutPipe()
		if err = errors.Join(err, server.Start()); err != nil {
			b.Fatal(err)
		}
		address, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		url, before, open := "http://"+strings.TrimSpace(address), rss(b, server.Process.Pid), 0
		for i := range 10_000 {
			if _, err := dial(b, url, fmt.Sprintf("127.1.%d.%d", i/10/250, i/10%250+1), "/livez"); err == nil {
				open++
			}
		}
		b.ReportMetric(float64(open), "open")
		b.ReportMetric(before, "MiB-before")
		b.ReportMetric(rss(b, server.Process.Pid), "MiB-after")
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	}
}

// rss returns the memory of a process, in MiB.
func rss(tb testing.TB, pid int) float64 {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		tb.Fatal(err)
	}
	kib, err := strconv.Atoi(regexp.MustCompile(`VmRSS:\s+(\d+)`).FindStringSubmatch(string(text))[1])
	if err != nil {
		tb.Fatal(err)
	}
	return float64(kib) / 1024
}
