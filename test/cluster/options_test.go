package cluster

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFolderOfAnotherIsLeftAlone(t *testing.T) {
	foreign := t.TempDir()
	write(t, filepath.Join(foreign, "thesis.txt"), "years of work", 0o600)
	if _, err := emptyFolder(foreign); err == nil || !strings.Contains(err.Error(), "thesis.txt") {
		t.Errorf("error %v does not name the file", err)
	}
	if string(read(t, filepath.Join(foreign, "thesis.txt"))) != "years of work" {
		t.Error("a stranger's file was touched")
	}
}

func TestUnknownProcess(t *testing.T) {
	c := &Cluster{components: []*component{{name: "etcd"}}}
	if err := c.StopProcess(t.Context(), "kubelet"); err == nil || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("error %v does not say what there is", err)
	}
}

func TestMissingControllers(t *testing.T) {
	got := missingControllers("cpuset cpu io memory pids rdma misc\n", "cpu memory\n")
	if want := []string{"cpuset", "pids"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOptions(t *testing.T) {
	for _, test := range []struct {
		name      string
		options   Options
		complaint string
	}{
		{"no folder", Options{BinDir: "/x"}, `Dir is ""`},
		{"good", Options{Dir: "/x", BinDir: "/x"}, ""},
	} {
		_, err := test.options.complete()
		if (err == nil) != (test.complaint == "") || err != nil && !strings.Contains(err.Error(), test.complaint) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.complaint)
		}
	}
}
