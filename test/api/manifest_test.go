package api

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The rights are the minimum, all of them in one list. A change that widens them must change
// the list, which makes it visible.
func TestRightsAreThoseOfTheList(t *testing.T) {
	w := evictdtest.NewWorld(t) // not parallel: another test widens the account's rights for a while
	w.Ship(evictdtest.Rights())
	mayDo(w, "testdata/can-i.golden", "pods/eviction")
}

// mayDo compares the rights of evictd's account with a golden file, once the API server has
// read a role with that resource.
func mayDo(w *evictdtest.World, path, resource string) {
	t := w.T
	t.Helper()
	var want, got string
	text, unread := os.ReadFile(path)
	want = string(text)
	f := func(ctx context.Context) bool {
		got = ""
		for line := range strings.Lines(w.Kubectl(ctx, "", "auth", "can-i", "--list", "--as="+evictdtest.AccountUser, "--namespace="+w.Namespace)) {
			got += strings.TrimRight(line, " \n") + "\n"
		}
		// The API server needs a moment to read the role.
		return strings.Contains(got, resource) && (*update || got == want)
	}
	w.Until("kubectl auth can-i --list as evictd is what is in "+path+"; go test ./api -run "+t.Name()+" -update writes it", f,
		func() string { return fmt.Sprintf("file (%v):\n%s\nnow:\n%s", unread, want, got) })
	if *update {
		w.Must(os.WriteFile(path, []byte(got), 0o600))
	}
}

// overlay applies an overlay of the shipped manifest for the duration of the test.
func overlay(w *evictdtest.World, name string) {
	w.T.Helper()
	path := "../../deploy/overlays/" + name
	w.Kubectl(w.T.Context(), "", "apply", "-k", path)
	w.Undo(func(ctx context.Context) {
		w.Kubectl(ctx, "", "delete", "--ignore-not-found", "--wait=false", "-k", path)
	})
}
