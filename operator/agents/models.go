package agents

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mash2-io/mash2/planning/rl"
	"github.com/mash2-io/mash2/planning/vertical"
)

// modelFile is what mash2 train writes beside the model's card.
const modelFile = "model.rl"

// environment that models of agents are trained in.
const environment = "marlise"

// FamilyOf an algorithm: what MARLISE's control API calls it.
func FamilyOf(algorithm string) string {
	switch algorithm {
	case "ppo", "ippo", "dppo", "residual-ppo":
		return PPOMind
	case "ddpg", "iddpg", "td3", "residual-td3":
		return DDPGMind
	case "mdqn", "dmdqn", "ddmdqn":
		return DQNMind
	}
	return ThresholdMind
}

// Builtin is before the name of a model that comes with the program, on the command line.
const Builtin = "builtin:"

// BuiltinMind is the name of that model in a ManagedWorkload.
const BuiltinMind = "builtin"

// LoadModel reads the minds of agents: builtin:agents, or a folder. A folder that mash2 train wrote is one mind for all
// of them: each decides on its own window with the same weights. A folder of such folders,
// agent_0, agent_1 …, is one for each; with only ≥ 0 that agent's is everybody's.
func LoadModel(path string, only int) (algorithm string, minds []vertical.Planner, err error) {
	if name, ok := strings.CutPrefix(path, Builtin); ok {
		if name != vertical.Shipped {
			return "", nil, fmt.Errorf("there is no model %s: want %s", path, Builtin+vertical.Shipped)
		}
		algorithm, mind, err := shipped()
		return algorithm, []vertical.Planner{mind}, err
	}
	if _, err := os.Stat(filepath.Join(path, modelFile)); err == nil {
		if only > 0 {
			return "", nil, fmt.Errorf("%s is one model: there is no agent %d in it", path, only)
		}
		algorithm, mind, err := loadOne(path)
		return algorithm, []vertical.Planner{mind}, err
	}
	for i := 0; ; i++ {
		dir := filepath.Join(path, fmt.Sprintf("agent_%d", i))
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			break
		}
		if only >= 0 && i != only {
			continue
		}
		name, mind, err := loadOne(dir)
		if err != nil {
			return "", nil, err
		}
		if algorithm != "" && name != algorithm {
			return "", nil, fmt.Errorf("%s: agents of one model learned by one algorithm, not by %s and %s", path, algorithm, name)
		}
		algorithm, minds = name, append(minds, mind)
	}
	if len(minds) == 0 {
		return "", nil, fmt.Errorf("%s has neither %s nor %s", path, modelFile, filepath.Join(fmt.Sprintf("agent_%d", max(only, 0)), modelFile))
	}
	return algorithm, minds, nil
}

func loadOne(dir string) (string, vertical.Planner, error) {
	path := filepath.Join(dir, modelFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	m, err := rl.Decode(data)
	if err == nil {
		var mind vertical.Planner
		if mind, err = mindOf(m); err == nil {
			return m.Algorithm, mind, nil
		}
	}
	return "", nil, fmt.Errorf("%s: %w", path, err)
}

// shipped makes a planner of the model that comes with the program.
func shipped() (algorithm string, mind vertical.Planner, err error) {
	data, _ := vertical.ShippedModel()
	m, err := rl.Decode(data)
	if err != nil {
		return "", nil, err
	}
	mind, err = mindOf(m)
	return m.Algorithm, mind, err
}

func mindOf(m rl.Model) (vertical.Planner, error) {
	if m.Environment != environment {
		return nil, fmt.Errorf("it was trained in %s, not in %s", m.Environment, environment)
	}
	return vertical.NewLearned(m.Algorithm, vertical.ActionOf(m.Algorithm), m.Policy)
}

// Mind makes a planner for one loop: a network decides in memory of its own, so that loops
// can't share one.
type Mind func() vertical.Planner

// Minds takes the models that agents can decide by, as rl.Encode writes them, out of all
// those that there are by name, besides the one that comes with the program. What is no
// model of agents is in rest.
func Minds(models map[string][]byte) (minds map[string]Mind, rest map[string][]byte, err error) {
	minds, rest = map[string]Mind{}, map[string][]byte{}
	if _, _, err := shipped(); err != nil {
		return nil, nil, err
	}
	minds[BuiltinMind] = func() vertical.Planner {
		_, mind, _ := shipped() // tried above
		return mind
	}
	for name, data := range models {
		m, err := rl.Decode(data)
		if err != nil || m.Environment != environment {
			rest[name] = data
			continue
		}
		if _, err := mindOf(m); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		minds[name] = func() vertical.Planner {
			mind, _ := mindOf(m) // tried above
			return mind
		}
	}
	return minds, rest, nil
}
