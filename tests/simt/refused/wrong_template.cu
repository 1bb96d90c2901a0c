// says: wrong_template.cu:10:20: error: no matching function for call to
template <class T, int N>
__global__ void set(T *p)
{
    p[0] = N;
}

void run(int *p)
{
    set<int, float><<<1, 1>>>(p);
}
