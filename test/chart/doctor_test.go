package chart

import (
	"maps"
	"strings"
	"testing"
)

// The doctor of `helm test` sees what evictd sees, whatever the values are: the same account, mounts,
// rights on the node and places of files.
func TestDoctorOfHelmSeesWhatEvictdSees(t *testing.T) {
	t.Parallel()
	for _, r := range append(Rows(t), Row{}) {
		rendered := Render(t, Namespace, r.Given+"\n"+r.Set)
		var evictd, doctor map[string]string
		for _, object := range rendered.Objects {
			if object["kind"] == "DaemonSet" {
				evictd = seen("spec.template.spec.", fields(object))
			}
		}
		for _, object := range rendered.Tests {
			if pod := fields(object); strings.HasSuffix(pod["metadata.name"], `-doctor"`) {
				doctor = seen("spec.", pod)
			}
		}
		if len(evictd) < 20 || !maps.Equal(evictd, doctor) {
			t.Errorf("%s: evictd sees\n%v\nand the doctor\n%v", r.Set, evictd, doctor)
		}
	}
}

// seen returns the fields of a pod's spec that decide what it can read of its node, and with which account.
func seen(spec string, all map[string]string) map[string]string {
	const container = "containers[evictd]."
	of := map[string]string{}
	for full, value := range all {
		path, found := strings.CutPrefix(full, spec)
		for _, prefix := range []string{
			"volumes", "securityContext", "serviceAccountName", "host", "nodeSelector", "tolerations", "affinity",
			container + "image", container + "env", container + "securityContext", container + "volumeMounts",
		} {
			if found && strings.HasPrefix(path, prefix) {
				of[path] = value
			}
		}
	}
	return of
}
