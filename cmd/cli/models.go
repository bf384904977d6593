package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"strings"

	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/strategic/model"
	"github.com/mash2-io/mash2/strategic/model/dense"
	"github.com/mash2-io/mash2/strategic/model/foreign"
	"github.com/mash2-io/mash2/strategic/strategy"
)

const (
	// modelSuffix is that of a model's file in a folder of models, modelFile the name of one
	// in a folder of its own, as mash2 train writes it.
	modelSuffix = ".rl"
	modelFile   = "model.rl"
	// qosFile is the name of a model that strategies ask, in a folder of its own.
	qosFile = "model.json"
	// onnxSuffix is that of a network, which strategies ask. Its file has no names for what
	// it reads: a file beside it, with featuresSuffix instead, has them, one a line.
	onnxSuffix, networkFile = ".onnx", "model.onnx"
	featuresSuffix          = ".features"
	// maxModel and maxModels bound what is read, bytes and files: records carry the models.
	maxModel  = 1 << 20
	maxModels = 64
	// maxNodeModel bounds what is asked on a node, which no record carries.
	maxNodeModel = 16 << 20
)

// modelFiles are the models of a folder by name.
type modelFiles struct {
	// rl decide of replicas or of running pods, qos are asked by strategies.
	rl, qos map[string][]byte
}

// modelKinds are kinds of models by the suffix of their files. .json, .txt and .onnx are
// strategies': mash2's own, XGBoost's and scikit-learn's; LightGBM's; small networks.
var modelKinds = map[string]func(*modelFiles) map[string][]byte{
	modelSuffix: func(m *modelFiles) map[string][]byte { return m.rl },
	".json":     func(m *modelFiles) map[string][]byte { return m.qos },
	".txt":      func(m *modelFiles) map[string][]byte { return m.qos },
	onnxSuffix:  func(m *modelFiles) map[string][]byte { return m.qos },
}

// readModels reads the models of a folder; none without a folder. Other files, and those
// that begin with a dot as a mounted ConfigMap has, are left out.
func readModels(dir string) (modelFiles, error) { return readModelsUpTo(dir, maxModel) }

// readModelsUpTo reads them if none has more bytes.
func readModelsUpTo(dir string, most int64) (modelFiles, error) {
	out, refused, err := usableModels(dir, most, func(modelFiles) error { return nil })
	if err != nil {
		return out, err
	}
	return out, errors.Join(refused...)
}

// usableModels reads those of a folder that can be read and that check takes, one at a time, and
// says why others are left out. A file that makes the program panic is left out, too.
func usableModels(dir string, most int64, check func(modelFiles) error) (out modelFiles, refused []error, err error) {
	out = modelFiles{rl: map[string][]byte{}, qos: map[string][]byte{}}
	if dir == "" {
		return out, nil, nil
	}
	files := os.DirFS(dir)
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return out, nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		info, err := fs.Stat(files, e.Name()) // through links
		if err != nil {
			refused = append(refused, err)
			continue
		}
		name, candidates := strings.TrimSuffix(e.Name(), path.Ext(e.Name())), []string{e.Name()}
		if info.IsDir() {
			name, candidates = e.Name(), []string{path.Join(e.Name(), modelFile), path.Join(e.Name(), qosFile), path.Join(e.Name(), networkFile)}
		}
		for _, file := range candidates {
			if err := out.take(files, name, file, most, check); err != nil {
				refused = append(refused, err)
			}
		}
	}
	return out, refused, nil
}

// take one file if it is there, of a kind that is known, and check takes it.
func (m *modelFiles) take(files fs.FS, name, file string, most int64, check func(modelFiles) error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%s: reading it panicked: %v", file, value)
		}
	}()
	one := modelFiles{rl: map[string][]byte{}, qos: map[string][]byte{}}
	if err := one.read(files, name, file, most); err != nil || len(one.rl)+len(one.qos) == 0 {
		return err
	}
	_, twice := modelKinds[path.Ext(file)](m)[name]
	switch {
	case twice:
		return fmt.Errorf("there are two models %s", name)
	case len(m.rl)+len(m.qos) == maxModels:
		return fmt.Errorf("there are more than %d models", maxModels)
	}
	if err := check(one); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	maps.Copy(m.rl, one.rl)
	maps.Copy(m.qos, one.qos)
	return nil
}

// read one file if it is there and of a kind that is known.
func (m *modelFiles) read(files fs.FS, name, file string, most int64) error {
	of := modelKinds[path.Ext(file)]
	if of == nil {
		return nil
	}
	info, err := fs.Stat(files, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Size() > most:
		return fmt.Errorf("%s has %d bytes, more than %d", file, info.Size(), most)
	}
	data, err := fs.ReadFile(files, file)
	if err != nil {
		return err
	}
	switch path.Ext(file) {
	case modelSuffix:
	case onnxSuffix:
		features := strings.TrimSuffix(file, onnxSuffix) + featuresSuffix
		names, err := fs.ReadFile(files, features)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a network for something else
		}
		if err != nil {
			return err
		}
		if data, err = dense.Encode(data, strings.Fields(string(names))); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	default:
		data, err = ownModel(data)
		switch {
		case errors.Is(err, foreign.ErrNoModel):
			return nil // a card, or notes
		case err != nil:
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	of(m)[name] = data
	return nil
}

// ownModel is a model for strategies in mash2's own form, of which its checksum is a part.
func ownModel(data []byte) ([]byte, error) {
	_, err := model.Decode(data)
	if !errors.Is(err, model.ErrVersion) {
		return data, err
	}
	other, err := foreign.Read(data)
	if err != nil {
		return nil, err
	}
	return model.Encode(other)
}

// strategyModels reads those that strategies ask.
func (m modelFiles) strategyModels() (map[string]strategy.Model, error) {
	return core.Config{QoS: m.qos}.StrategyModels()
}
