package kubeletconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubelet "k8s.io/kubelet/config/v1beta1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// maxFileBytes bounds the file: what is larger is some other file.
const maxFileBytes = 1 << 20

// Read returns what the kubelet's configuration file at path says, and the drop-ins in the
// directory of the same name with .d at its end, where there is one. Path may be a directory of
// drop-ins, as a kubelet has that gets --config-dir alone: then there are no defaults of
// thresholds, and with no drop-in in it nothing is known. Like the kubelet it
// passes over fields that it does not know, and understands nothing of a file in which a
// value has another type than its field. The error says that a file cannot be read or is no
// such configuration; then nothing is known. It is [fs.ErrNotExist] only where nothing has that name.
func Read(path string) (*Configuration, error) {
	base, files, dir := &kubelet.KubeletConfiguration{}, []string{path}, path+".d"
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		files, dir = nil, path
	} else if _, err := readFile(path, base); err != nil {
		return nil, err
	} else {
		fillDefaults(base)
	}
	base, dropIns, err := mergeDropIns(base, dir)
	if files = append(files, dropIns...); err == nil && len(files) == 0 {
		err = failed(path, errors.New("it is a directory without files that end with .conf"))
	}
	if err != nil {
		return nil, err
	}
	return newConfiguration(base, files), nil
}

// Default returns what a kubelet does whose file writes nothing of evictions.
func Default() *Configuration {
	base := &kubelet.KubeletConfiguration{}
	fillDefaults(base)
	return newConfiguration(base, nil)
}

// readFile decodes the file, or its kind alone, and returns it as JSON by the conversion that the kubelet's loader uses.
func readFile(path string, into schema.ObjectKind) ([]byte, error) {
	text, err := content(path)
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(text, into)
	}
	if is := into.GroupVersionKind(); err == nil && (is.Group != kubelet.GroupName || is.Kind != "KubeletConfiguration") {
		err = fmt.Errorf("not a KubeletConfiguration: it says apiVersion %.32q and kind %.32q", is.GroupVersion(), is.Kind)
	}
	if err != nil {
		return nil, failed(path, err)
	}
	return text, nil
}

// content returns the file's content. A link without its target is there: the kubelet may see what it leads to.
func content(path string) ([]byte, error) {
	info, err := os.Stat(path)
	target, noLink := os.Readlink(path)
	switch {
	case noLink == nil && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("it is a link to %q, which evictd does not find", target)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > maxFileBytes:
		return nil, errors.New("it is larger than 1 MiB")
	}
	return os.ReadFile(filepath.Clean(path))
}

func failed(path string, err error) error {
	return fmt.Errorf("reading the kubelet's configuration %s: %w", path, err)
}

// mergeDropIns does what the kubelet does with the drop-ins in a directory (k8s.io/kubernetes
// cmd/kubelet/app/server.go, mergeKubeletConfigurations): in the order of their names each is a JSON merge patch of the
// configuration before it, and files with another ending are skipped. Where there is one, it fills the defaults of
// everything but the thresholds once more.
func mergeDropIns(base *kubelet.KubeletConfiguration, dir string) (merged *kubelet.KubeletConfiguration, names []string, err error) {
	text, err := json.Marshal(base)
	if err != nil {
		return nil, nil, err
	}
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(name) != ".conf" {
			return err
		}
		names = append(names, name)
		patch, err := readFile(name, &metav1.TypeMeta{}) // null may stand for any field
		if err == nil {
			text, err = jsonpatch.MergePatch(text, patch)
		}
		return err
	})
	switch {
	case len(names) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist)):
		return base, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("merging the kubelet's drop-ins: %w", err)
	}
	merged = &kubelet.KubeletConfiguration{}
	if err = kjson.UnmarshalCaseSensitivePreserveInts(text, merged); err != nil {
		return nil, nil, failed(strings.Join(names, ", "), err)
	}
	return merged, names, nil
}
