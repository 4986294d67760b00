package cluster

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Everything in the folder of a cluster is deleted when it stops.
func TestFolderOfAnotherIsLeftAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "thesis.txt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := emptyFolder(filepath.Dir(file))
	if _, missing := os.Stat(file); missing != nil || err == nil || !strings.Contains(err.Error(), "thesis.txt") {
		t.Errorf("error %v does not name the file: %v", err, missing)
	}
}

// Where the machine's own kubelet listens on all addresses, no address has all the ports of a cluster: the start says so.
func TestNetworkHasAllPortsFree(t *testing.T) {
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, text, _ := net.SplitHostPort(taken.Addr().String())
	port, _ := strconv.Atoi(text)
	if network, err := freeNetwork(t.Context(), []int{0, port}); err == nil || !strings.Contains(err.Error(), ":"+text) {
		t.Errorf("network %q, error %v, want one that names port %s", network, err, text)
	}
}
