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
	kubelet "k8s.io/kubelet/config/v1beta1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/wording"
)

// ErrOtherKind is why a file is not a kubelet's configuration although it could be read:
// it says that it is something else.
var ErrOtherKind = errors.New("not a KubeletConfiguration")

const (
	group = "kubelet.config.k8s.io/"
	kind  = "KubeletConfiguration"
	// maxFileBytes bounds the file: what is larger is some other file.
	maxFileBytes = 1 << 20
)

// Read returns what the kubelet's configuration file at path says, and the drop-ins in the
// directory of the same name with .d at its end, where there is one. Path may be a directory of
// drop-ins, as a kubelet has that gets --config-dir alone: then there are no defaults of
// thresholds, and with no drop-in in it nothing is known. Like the kubelet it
// passes over fields that it does not know, and understands nothing of a file in which a
// value has another type than its field. The error says that a file cannot be read or is no
// such configuration ([ErrOtherKind]); then nothing is known.
func Read(path string) (*Configuration, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return readWith(&kubelet.KubeletConfiguration{}, nil, path)
	}
	text, err := jsonOf(path)
	if err != nil {
		return nil, err
	}
	base, err := decode(path, text)
	if err != nil {
		return nil, err
	}
	fillDefaults(base)
	read, err := readWith(base, []string{path}, path+".d")
	if dir := filepath.Dir(path); err == nil && strings.HasSuffix(dir, ".d") {
		read.Unread = append(read.Unread, "it seems to be a drop-in, and the others in "+dir+" are not read: name the directory")
	}
	return read, err
}

// readWith merges the drop-ins of a directory over what was read of the files.
func readWith(base *kubelet.KubeletConfiguration, files []string, dir string) (*Configuration, error) {
	dropIns, err := dropInsOf(dir)
	if err != nil {
		return nil, err
	}
	if files = append(files, dropIns...); len(files) == 0 {
		return nil, failed(dir, fmt.Errorf("%w: it is a directory without files that end with .conf", ErrOtherKind))
	}
	if base, err = merge(base, dropIns); err != nil {
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

// jsonOf returns the file as JSON, by the conversion that the kubelet's loader uses.
func jsonOf(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("it is %s and not a regular file", kindOf(info.Mode()))
	case info.Size() > maxFileBytes:
		err = errors.New("it is larger than 1 MiB")
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(filepath.Clean(path))
	}
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	var head metav1.TypeMeta
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(text, &head)
	}
	if err == nil && (head.Kind != kind || !strings.HasPrefix(head.APIVersion, group)) {
		err = fmt.Errorf("%w: it says apiVersion %q and kind %q", ErrOtherKind, shown(head.APIVersion), shown(head.Kind))
	}
	if err != nil {
		return nil, failed(path, err)
	}
	return text, nil
}

// kindOf names what is not a regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	default:
		return "a device"
	}
}

func decode(path string, text []byte) (*kubelet.KubeletConfiguration, error) {
	decoded := &kubelet.KubeletConfiguration{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, decoded); err != nil {
		return nil, failed(path, err)
	}
	return decoded, nil
}

func failed(path string, err error) error {
	return fmt.Errorf("reading the kubelet's configuration %s: %w", path, err)
}

// shown returns untrusted text on one line, limited in length.
func shown(text string) string {
	const longest = 32
	return wording.OneLine(strings.ToValidUTF8(text[:min(len(text), longest)], ""))
}

// dropInsOf returns the drop-ins in a directory in the order in which the kubelet merges them.
func dropInsOf(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(name) == ".conf" {
			names = append(names, name)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for the kubelet's drop-ins: %w", err)
	}
	return names, nil
}

// merge does what the kubelet does with its drop-ins (k8s.io/kubernetes
// cmd/kubelet/app/server.go, mergeKubeletConfigurations): each is a JSON merge patch of the
// configuration before it. It fills the defaults of everything but the thresholds once more.
func merge(base *kubelet.KubeletConfiguration, dropIns []string) (*kubelet.KubeletConfiguration, error) {
	if len(dropIns) == 0 {
		return base, nil
	}
	merged, err := json.Marshal(base)
	if err != nil {
		return nil, err
	}
	for _, name := range dropIns {
		patch, err := jsonOf(name)
		if err != nil {
			return nil, err
		}
		if merged, err = jsonpatch.MergePatch(merged, patch); err != nil {
			return nil, failed(name, err)
		}
	}
	return decode(strings.Join(dropIns, ", "), merged)
}
