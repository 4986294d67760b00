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
// such configuration, and of which kind it is; then nothing is known. It is [fs.ErrNotExist] only
// where nothing has that name.
func Read(path string) (*Configuration, error) {
	base := &kubelet.KubeletConfiguration{}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return readWith(base, nil, path)
	}
	text, err := jsonOf(path)
	if err == nil {
		err = decode(path, text, base)
	}
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
	dropIns, unread, err := dropInsOf(dir)
	if err == nil && len(dropIns) > 0 {
		base, err = merge(base, dropIns)
	}
	if err != nil {
		return nil, err
	}
	if files = append(files, dropIns...); len(files) == 0 {
		return nil, failed(dir, errors.New(strings.Join(append([]string{"it is a directory without files that end with .conf"}, unread...), "; ")))
	}
	read := newConfiguration(base, files)
	read.Unread = append(read.Unread, unread...)
	return read, nil
}

// Default returns what a kubelet does whose file writes nothing of evictions.
func Default() *Configuration {
	base := &kubelet.KubeletConfiguration{}
	fillDefaults(base)
	return newConfiguration(base, nil)
}

// jsonOf returns the file as JSON, by the conversion that the kubelet's loader uses.
func jsonOf(path string) ([]byte, error) {
	text, err := content(path)
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	var head metav1.TypeMeta
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(text, &head)
	}
	if err == nil && (head.Kind != kind || !strings.HasPrefix(head.APIVersion, group)) {
		err = fmt.Errorf("not a KubeletConfiguration: it says apiVersion %q and kind %q", shown(head.APIVersion), shown(head.Kind))
	}
	if err != nil {
		return nil, failed(path, err)
	}
	return text, nil
}

func decode(path string, text []byte, into *kubelet.KubeletConfiguration) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, into); err != nil {
		return failed(path, err)
	}
	return nil
}

func content(path string) ([]byte, error) {
	info, err := stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("it is %s and not a regular file", kindOf(info.Mode()))
	case info.Size() > maxFileBytes:
		return nil, errors.New("it is larger than 1 MiB")
	}
	return os.ReadFile(filepath.Clean(path))
}

// stat is [os.Stat], but a link without its target is there: the kubelet may see what it leads to.
func stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if target, fault := os.Readlink(path); fault == nil && errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("it is a link to %s, which evictd does not find", wording.OneLine(target))
	}
	return info, err
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

func failed(path string, err error) error {
	return fmt.Errorf("reading the kubelet's configuration %s: %w", path, err)
}

// shown returns untrusted text on one line, limited in length.
func shown(text string) string {
	const longest = 32
	return wording.OneLine(strings.ToValidUTF8(text[:min(len(text), longest)], ""))
}

// dropInsOf returns the drop-ins in a directory in the order in which the kubelet merges them, and a
// sentence for each other file in it: those that the kubelet skips, and links without their targets.
func dropInsOf(dir string) (names, unread []string, err error) {
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if _, err = stat(name); filepath.Ext(name) != ".conf" {
			err = errors.New("the kubelet reads the files that end with .conf")
		}
		if err != nil {
			unread = append(unread, name+" is not read: "+err.Error())
		} else {
			names = append(names, name)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("looking for the kubelet's drop-ins: %w", err)
	}
	return names, unread, nil
}

// merge does what the kubelet does with its drop-ins (k8s.io/kubernetes
// cmd/kubelet/app/server.go, mergeKubeletConfigurations): each is a JSON merge patch of the
// configuration before it. It fills the defaults of everything but the thresholds once more.
func merge(base *kubelet.KubeletConfiguration, dropIns []string) (*kubelet.KubeletConfiguration, error) {
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
	base = &kubelet.KubeletConfiguration{}
	return base, decode(strings.Join(dropIns, ", "), merged, base)
}
