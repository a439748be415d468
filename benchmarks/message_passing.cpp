// Loss and gradients of the message-passing networks of connectivity_networks.py, on a CPU.
//
// All graphs have the same edges, so a graph is the colours of its nodes. A thread computes one graph at a time, forward
// and backward: what the backward pass needs stays in its cache. connectivity.py compiles this file and compares it with
// PyG's layers and with autograd before it trains.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

constexpr int D = 32, HEADS = 4, CLASSES = 2, BLOCK = 8;  // BLOCK rows of a product are computed at a time
constexpr float EPSILON = 1e-5f, SLOPE = 0.2f;            // of layer norm, and of GAT's leaky ReLU

enum Kind { GCN, GIN, GAT };

using Floats = std::vector<float>;
typedef float Half __attribute__((vector_size(2 * D), aligned(4), may_alias));  // half of a row

inline const Half& half(const float* row, int part) { return reinterpret_cast<const Half*>(row)[part]; }
inline Half& half(float* row, int part) { return reinterpret_cast<Half*>(row)[part]; }

inline float total(const Half& values) {
    float sum = 0;
    for (int c = 0; c < D / 2; c++) sum += values[c];
    return sum;
}

// out[i] = bias + sum over k of x[i][k] w[k]
void multiply(int n, const float* x, const float* w, const float* bias, float* out) {
    for (int i = 0; i < n; i += BLOCK) {
        Half sum[BLOCK][2];
        for (auto& row : sum)
            for (int part = 0; part < 2; part++) row[part] = bias ? half(bias, part) : Half{};
        for (int k = 0; k < D; k++)
            for (int row = 0; row < BLOCK; row++)
                for (int part = 0; part < 2; part++) sum[row][part] += x[(i + row) * D + k] * half(w + k * D, part);
        for (int row = 0; row < BLOCK; row++)
            for (int part = 0; part < 2; part++) half(out + (i + row) * D, part) = sum[row][part];
    }
}

// dw[k] += sum over i of g[i][k] x[i], and db += sum over i of g[i]
void multiply_gradient(int n, const float* x, const float* g, float* dw, float* db) {
    for (int first = 0; first < D; first += BLOCK) {
        Half sum[BLOCK][2] = {};
        for (int i = 0; i < n; i++)
            for (int row = 0; row < BLOCK; row++)
                for (int part = 0; part < 2; part++) sum[row][part] += g[i * D + first + row] * half(x + i * D, part);
        for (int row = 0; row < BLOCK; row++)
            for (int part = 0; part < 2; part++) half(dw + (first + row) * D, part) += sum[row][part];
    }
    if (!db) return;
    Half sum[2] = {};
    for (int i = 0; i < n; i++)
        for (int part = 0; part < 2; part++) sum[part] += half(g + i * D, part);
    for (int part = 0; part < 2; part++) half(db, part) += sum[part];
}

// Parameters lie one after another, as in named_parameters(); gradients have the same offsets.
struct Layer {
    int weight, bias;              // of GIN's first linear layer, or the only one
    int weight2, bias2;            // of GIN's second
    int source, target;            // GAT's attention
    int norm, shift;               // of layer norm
    int virtual_node;              // two linear layers, or -1
    Floats transposed, transposed2;  // weight and weight2, input by output
};

struct Network {
    Kind kind;
    int first_weight, first_bias, head, size;
    std::vector<Layer> layers;
    const float* values;

    Network(Kind kind, int depth, bool virtual_node, const float* values) : kind(kind), size(0), values(values) {
        auto take = [&](int count) { return (size += count) - count; };
        first_weight = take(2 * D), first_bias = take(D);
        layers.resize(depth);
        for (auto& layer : layers) {
            if (kind == GIN) {
                layer.weight = take(D * D), layer.bias = take(D), layer.weight2 = take(D * D), layer.bias2 = take(D);
                layer.transposed2 = transpose(layer.weight2);
            } else {
                if (kind == GAT) layer.source = take(D), layer.target = take(D);
                layer.bias = take(D), layer.weight = take(D * D);
            }
            layer.transposed = transpose(layer.weight);
        }
        for (auto& layer : layers) layer.norm = take(D), layer.shift = take(D);
        head = take(D * D + D + CLASSES * D + CLASSES);
        for (int level = 0; level < depth; level++)
            layers[level].virtual_node = virtual_node && level < depth - 1 ? take(2 * (D * D + D)) : -1;
    }

    Floats transpose(int weight) const {
        Floats out(D * D);
        for (int k = 0; k < D; k++)
            for (int c = 0; c < D; c++) out[c * D + k] = values[weight + k * D + c];
        return out;
    }
};

// Edges by the node that they lead to, with self-loops; the matrix of their factors is symmetric.
struct Edges {
    int nodes, padded;
    const int32_t *row_ptr, *source;
    const float* factor;

    void sum(const float* x, float* out, bool add) const {
        for (int i = 0; i < nodes; i++) {
            Half total[2] = {};
            if (add) total[0] = half(out + i * D, 0), total[1] = half(out + i * D, 1);
            for (int e = row_ptr[i]; e < row_ptr[i + 1]; e++)
                for (int part = 0; part < 2; part++) total[part] += factor[e] * half(x + source[e] * D, part);
            for (int part = 0; part < 2; part++) half(out + i * D, part) = total[part];
        }
    }
};

// Two linear layers with a ReLU between them, on one row
struct Perceptron {
    const float* values;
    int outputs;
    float input[D], hidden[D];

    void forward(const float* x, float* out) {
        std::copy(x, x + D, input);
        const float *w = values, *b = w + D * D, *w2 = b + D, *b2 = w2 + outputs * D;
        for (int k = 0; k < D; k++) {
            float sum = b[k];
            for (int c = 0; c < D; c++) sum += w[k * D + c] * x[c];
            hidden[k] = std::max(sum, 0.f);
        }
        for (int k = 0; k < outputs; k++) {
            out[k] = b2[k];
            for (int c = 0; c < D; c++) out[k] += w2[k * D + c] * hidden[c];
        }
    }

    void backward(const float* g, float* gradient, float* dx) const {
        const float *w = values, *w2 = w + D * D + D;
        float *dw = gradient, *db = dw + D * D, *dw2 = db + D, *db2 = dw2 + outputs * D, dhidden[D] = {};
        for (int k = 0; k < outputs; k++) {
            db2[k] += g[k];
            for (int c = 0; c < D; c++) dw2[k * D + c] += g[k] * hidden[c], dhidden[c] += g[k] * w2[k * D + c];
        }
        std::fill(dx, dx + D, 0.f);
        for (int k = 0; k < D; k++) {
            if (hidden[k] <= 0) continue;
            db[k] += dhidden[k];
            for (int c = 0; c < D; c++) dw[k * D + c] += dhidden[k] * input[c], dx[c] += dhidden[k] * w[k * D + c];
        }
    }
};

// What the backward pass of a layer needs
struct Saved {
    Floats input, hidden, normal, scale;  // scale: 1 / standard deviation of each row
    Floats share, from, to;               // GAT: softmax per edge and head, and its terms per node and head
    Perceptron virtual_node;
};

struct Graph {
    const Network& net;
    const Edges& edges;
    std::vector<Saved> saved;
    Floats x, y, z, from, to;
    Perceptron head;

    Graph(const Network& net, const Edges& edges) : net(net), edges(edges), saved(net.layers.size()) {
        size_t rows = size_t(edges.padded) * D, terms = size_t(edges.nodes) * HEADS;
        for (auto* buffer : {&x, &y, &z}) buffer->resize(rows);
        for (auto* buffer : {&from, &to}) buffer->resize(terms);
        head.values = net.values + net.head, head.outputs = CLASSES;
        for (size_t level = 0; level < saved.size(); level++) {
            Saved& each = saved[level];
            each.virtual_node.values = net.values + net.layers[level].virtual_node, each.virtual_node.outputs = D;
            for (auto* buffer : {&each.input, &each.hidden, &each.normal}) buffer->resize(rows);
            each.scale.resize(edges.nodes);
            if (net.kind != GAT) continue;
            each.share.resize(size_t(edges.row_ptr[edges.nodes]) * HEADS);
            for (auto* buffer : {&each.from, &each.to}) buffer->resize(terms);
        }
    }

    Floats mean() const {
        Floats out(D);
        for (int i = 0; i < edges.nodes; i++)
            for (int c = 0; c < D; c++) out[c] += x[i * D + c];
        for (auto& value : out) value /= edges.nodes;
        return out;
    }

    void forward(const int8_t* red, float* logits) {
        const float* v = net.values;
        float first[2][D];  // of a white and a red node
        for (int c = 0; c < 2 * D; c++) first[c % 2][c / 2] = v[net.first_weight + c] + v[net.first_bias + c / 2];
        for (int i = 0; i < edges.nodes; i++) std::copy(first[red[i]], first[red[i]] + D, &x[i * D]);
        for (size_t level = 0; level < saved.size(); level++) {
            const Layer& layer = net.layers[level];
            Saved& save = saved[level];
            if (net.kind == GAT) {
                attend(layer, save);
            } else {
                edges.sum(x.data(), save.input.data(), false);
                float* out = net.kind == GIN ? save.hidden.data() : y.data();
                multiply(edges.padded, save.input.data(), layer.transposed.data(), v + layer.bias, out);
                if (net.kind == GIN) {
                    for (auto& value : save.hidden) value = std::max(value, 0.f);
                    multiply(edges.padded, out, layer.transposed2.data(), v + layer.bias2, y.data());
                }
            }
            normalise(layer, save);
            if (layer.virtual_node < 0) continue;
            float state[D];
            save.virtual_node.forward(mean().data(), state);
            for (int i = 0; i < edges.nodes; i++)
                for (int c = 0; c < D; c++) x[i * D + c] += state[c];
        }
        head.forward(mean().data(), logits);
    }

    // x += relu(layer norm(y))
    void normalise(const Layer& layer, Saved& save) {
        const float *norm = net.values + layer.norm, *shift = net.values + layer.shift;
        for (int i = 0; i < edges.nodes; i++) {
            Half y0 = half(&y[i * D], 0), y1 = half(&y[i * D], 1);
            float mean = total(y0 + y1) / D;
            y0 -= mean, y1 -= mean;
            save.scale[i] = 1 / std::sqrt(total(y0 * y0 + y1 * y1) / D + EPSILON);
            half(&save.normal[i * D], 0) = y0 * save.scale[i], half(&save.normal[i * D], 1) = y1 * save.scale[i];
            for (int c = 0; c < D; c++) x[i * D + c] += std::max(save.normal[i * D + c] * norm[c] + shift[c], 0.f);
        }
    }

    // z = the gradient of y, where g is that of x
    void normalise_gradient(const Layer& layer, const Saved& save, const Floats& g, float* gradient) {
        const float *norm = net.values + layer.norm, *shift = net.values + layer.shift;
        float dnorm[D] = {}, dshift[D] = {};
        for (int i = 0; i < edges.nodes; i++) {
            Half d[2], normal[2], product = {}, sum = {};
            for (int part = 0; part < 2; part++) {
                normal[part] = half(&save.normal[i * D], part);
                Half out = normal[part] * half(norm, part) + half(shift, part) > 0 ? half(&g[i * D], part) : Half{};
                half(dnorm, part) += out * normal[part], half(dshift, part) += out;
                d[part] = out * half(norm, part);
                sum += d[part], product += d[part] * normal[part];
            }
            float mean = total(sum) / D, slope = total(product) / D;
            for (int part = 0; part < 2; part++)
                half(&z[i * D], part) = save.scale[i] * (d[part] - mean - normal[part] * slope);
        }
        for (int c = 0; c < D; c++) gradient[layer.norm + c] += dnorm[c], gradient[layer.shift + c] += dshift[c];
    }

    // The gradients of all parameters, from that of the logits; x becomes the gradient of features
    void backward(const int8_t* red, const float* dlogits, float* gradient) {
        const float* v = net.values;
        float dmean[D];
        head.backward(dlogits, gradient + net.head, dmean);
        for (int i = 0; i < edges.nodes; i++)
            for (int c = 0; c < D; c++) x[i * D + c] = dmean[c] / edges.nodes;
        for (size_t level = saved.size(); level-- > 0;) {
            const Layer& layer = net.layers[level];
            const Saved& save = saved[level];
            if (layer.virtual_node >= 0) {
                float total[D] = {}, d[D];
                for (int i = 0; i < edges.nodes; i++)
                    for (int c = 0; c < D; c++) total[c] += x[i * D + c];
                save.virtual_node.backward(total, gradient + layer.virtual_node, d);
                for (int i = 0; i < edges.nodes; i++)
                    for (int c = 0; c < D; c++) x[i * D + c] += d[c] / edges.nodes;
            }
            normalise_gradient(layer, save, x, gradient);
            if (net.kind == GAT) {
                attend_gradient(layer, save, gradient);
                continue;
            }
            if (net.kind == GIN) {
                multiply_gradient(edges.nodes, save.hidden.data(), z.data(), gradient + layer.weight2, gradient + layer.bias2);
                multiply(edges.padded, z.data(), v + layer.weight2, nullptr, y.data());
                for (int i = 0; i < edges.nodes * D; i++) z[i] = save.hidden[i] > 0 ? y[i] : 0;
            }
            multiply_gradient(edges.nodes, save.input.data(), z.data(), gradient + layer.weight, gradient + layer.bias);
            multiply(edges.padded, z.data(), v + layer.weight, nullptr, y.data());
            edges.sum(y.data(), x.data(), true);
        }
        float first[2][D] = {};
        for (int i = 0; i < edges.nodes; i++)
            for (int c = 0; c < D; c++) first[red[i]][c] += x[i * D + c];
        for (int c = 0; c < 2 * D; c++) {
            gradient[net.first_weight + c] += first[c % 2][c / 2];
            gradient[net.first_bias + c / 2] += first[c % 2][c / 2];
        }
    }

    // y = GAT's layer of x
    void attend(const Layer& layer, Saved& save) {
        const float *v = net.values, *bias = v + layer.bias;
        std::copy(x.begin(), x.end(), save.input.begin());
        multiply(edges.padded, x.data(), layer.transposed.data(), nullptr, save.hidden.data());
        for (int i = 0; i < edges.nodes; i++)
            for (int h = 0; h < HEADS; h++) {
                float from = 0, to = 0;
                for (int c = h * D / HEADS; c < (h + 1) * D / HEADS; c++) {
                    from += save.hidden[i * D + c] * v[layer.source + c];
                    to += save.hidden[i * D + c] * v[layer.target + c];
                }
                save.from[i * HEADS + h] = from, save.to[i * HEADS + h] = to;
            }
        for (int i = 0; i < edges.nodes; i++) {
            float most[HEADS], total[HEADS] = {};
            std::fill(most, most + HEADS, std::numeric_limits<float>::lowest());
            std::copy(bias, bias + D, &y[i * D]);
            for (int e = edges.row_ptr[i]; e < edges.row_ptr[i + 1]; e++)
                for (int h = 0; h < HEADS; h++) {
                    float raw = save.from[edges.source[e] * HEADS + h] + save.to[i * HEADS + h];
                    save.share[e * HEADS + h] = raw = std::max(raw, SLOPE * raw);
                    most[h] = std::max(most[h], raw);
                }
            for (int e = edges.row_ptr[i]; e < edges.row_ptr[i + 1]; e++)
                for (int h = 0; h < HEADS; h++)
                    total[h] += save.share[e * HEADS + h] = std::exp(save.share[e * HEADS + h] - most[h]);
            for (int e = edges.row_ptr[i]; e < edges.row_ptr[i + 1]; e++)
                for (int h = 0; h < HEADS; h++) {
                    float share = save.share[e * HEADS + h] /= total[h];
                    for (int c = h * D / HEADS; c < (h + 1) * D / HEADS; c++)
                        y[i * D + c] += share * save.hidden[edges.source[e] * D + c];
                }
        }
    }

    // Add the gradient of GAT's input to x, where z is that of its output
    void attend_gradient(const Layer& layer, const Saved& save, float* gradient) {
        const float* v = net.values;
        for (auto* buffer : {&y, &from, &to}) std::fill(buffer->begin(), buffer->end(), 0.f);
        for (int i = 0; i < edges.nodes; i++) {
            float mean[HEADS] = {};  // the mean gradient of a share
            for (int h = 0; h < HEADS; h++)
                for (int c = h * D / HEADS; c < (h + 1) * D / HEADS; c++) gradient[layer.bias + c] += z[i * D + c];
            auto of_share = [&](int e, int h) {
                float sum = 0;
                for (int c = h * D / HEADS; c < (h + 1) * D / HEADS; c++)
                    sum += z[i * D + c] * save.hidden[edges.source[e] * D + c];
                return sum;
            };
            for (int e = edges.row_ptr[i]; e < edges.row_ptr[i + 1]; e++)
                for (int h = 0; h < HEADS; h++) mean[h] += save.share[e * HEADS + h] * of_share(e, h);
            for (int e = edges.row_ptr[i]; e < edges.row_ptr[i + 1]; e++)
                for (int h = 0; h < HEADS; h++) {
                    int j = edges.source[e];
                    float share = save.share[e * HEADS + h], raw = save.from[j * HEADS + h] + save.to[i * HEADS + h];
                    float d = share * (of_share(e, h) - mean[h]) * (raw > 0 ? 1 : SLOPE);
                    from[j * HEADS + h] += d, to[i * HEADS + h] += d;
                    for (int c = h * D / HEADS; c < (h + 1) * D / HEADS; c++) y[j * D + c] += share * z[i * D + c];
                }
        }
        for (int i = 0; i < edges.nodes; i++)
            for (int h = 0; h < HEADS; h++)
                for (int c = h * D / HEADS; c < (h + 1) * D / HEADS; c++) {
                    float dfrom = from[i * HEADS + h], dto = to[i * HEADS + h];
                    gradient[layer.source + c] += dfrom * save.hidden[i * D + c];
                    gradient[layer.target + c] += dto * save.hidden[i * D + c];
                    y[i * D + c] += dfrom * v[layer.source + c] + dto * v[layer.target + c];
                }
        multiply_gradient(edges.nodes, save.input.data(), y.data(), gradient + layer.weight, nullptr);
        multiply(edges.padded, y.data(), v + layer.weight, nullptr, z.data());
        for (int i = 0; i < edges.nodes * D; i++) x[i] += z[i];
    }
};

}  // namespace

// The logits of networks [R, B, 2]; if gradients [R, parameters] are asked for, also those of each network's mean loss
extern "C" void run(int kind, int depth, int virtual_node, int nodes, int networks, int graphs, int parameters, int threads,
                    const int32_t* row_ptr, const int32_t* source, const float* factor, const int8_t* red,
                    const int64_t* ids, const int64_t* y, const float* values, float* logits, float* gradients) {
    Edges edges{nodes, (nodes + BLOCK - 1) / BLOCK * BLOCK, row_ptr, source, factor};
    std::vector<Network> nets;
    for (int r = 0; r < networks; r++)
        nets.emplace_back(Kind(kind), depth, virtual_node, values + size_t(r) * parameters);
    std::vector<Floats> parts(gradients ? size_t(networks) * threads : 0);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int task = 0; task < networks * threads; task++) {  // a network's graphs are split among the threads
        int r = task / threads, part = task % threads;
        Graph graph(nets[r], edges);
        if (gradients) parts[task].assign(parameters, 0.f);
        for (int b = graphs * part / threads; b < graphs * (part + 1) / threads; b++) {
            size_t index = size_t(r) * graphs + b;
            const int8_t* colours = red + ids[index] * nodes;
            float* out = logits + index * CLASSES;
            graph.forward(colours, out);
            if (!gradients) continue;
            float most = *std::max_element(out, out + CLASSES), total = 0, d[CLASSES];
            for (int k = 0; k < CLASSES; k++) total += d[k] = std::exp(out[k] - most);
            for (int k = 0; k < CLASSES; k++) d[k] = (d[k] / total - (k == y[ids[index]])) / graphs;
            graph.backward(colours, d, parts[task].data());
        }
    }
    for (size_t task = 0; task < parts.size(); task++)
        for (int p = 0; p < parameters; p++) {
            float* sum = gradients + task / threads * parameters + p;
            *sum = (task % threads ? *sum : 0) + parts[task][p];
        }
}
